// Max pooling on the CPU. Windows of 2 x 2 with stride 2, which most networks use, are vectorised:
// a vector of outputs needs the even and odd columns of two rows. Other windows are taken element
// by element for a row of outputs. Over nhwc tensors vectors run along the channels, for any
// window.
#include "backend/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/max_pool.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/options/geometry.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using backend::PoolGeometry;

/// visit(offset of the first channel, index in the window) for each input pixel of a window.
template <class Visit>
HWY_INLINE void for_each_element(const PoolGeometry& g, int64_t image, int64_t oy, int64_t ox,
                                 const Visit& visit) {
  for (int64_t ky = 0; ky < g.kernel.h; ++ky) {
    const int64_t iy = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kernel.w; ++kx) {
      const int64_t ix = ox * g.stride.w - g.padding.w + kx * g.dilation.w;
      if (ix < 0 || ix >= g.w) continue;
      visit(((image * g.h + iy) * g.w + ix) * g.c, static_cast<int32_t>(ky * g.kernel.w + kx));
    }
  }
}

/// Where elements of windows lie behind the first one, in a plane.
template <class Index>
class Offsets {
 public:
  explicit Offsets(const PoolGeometry& g) : g_(g) {
    if constexpr (sizeof(Index) == 1)
      for (int64_t k = 0; k < g.kernel.h * g.kernel.w; ++k)
        known_[static_cast<size_t>(k)] = offset(k);
  }
  int64_t first(int64_t oy, int64_t ox) const {
    return (oy * g_.stride.h - g_.padding.h) * g_.w + ox * g_.stride.w - g_.padding.w;
  }
  int64_t operator[](Index index) const {
    if constexpr (sizeof(Index) == 1)
      return known_[index];
    else
      return offset(index);
  }

 private:
  int64_t offset(int64_t index) const {
    return index / g_.kernel.w * g_.dilation.h * g_.w + index % g_.kernel.w * g_.dilation.w;
  }
  const PoolGeometry& g_;
  std::array<int64_t, sizeof(Index) == 1 ? backend::kBytePoolWindow : 1> known_;
};

/// How many maxima are looked for at a time, with indices of as many bits as they have.
constexpr int64_t kAtATime = 256;

/// Outputs [first, last) of a row take one more element of their windows, which lie `kStride` (1,
/// 2; 0: `stride`) apart from `x` on. A NaN wins, as it must not be lost.
template <int kStride, class T>
HWY_INLINE void take_element(const T* HWY_RESTRICT x, int64_t stride, int32_t index, int64_t first,
                             int64_t last, T* HWY_RESTRICT best, int32_t* HWY_RESTRICT at) {
  const int64_t step = kStride > 0 ? kStride : stride;
  for (int64_t i = first; i < last; ++i) {
    const T v = x[(i - first) * step];
    const bool wins = (at[i] < 0) | (v > best[i]) | (v != v);
    best[i] = wins ? v : best[i];
    at[i] = wins ? index : at[i];
  }
}

/// Outputs [begin, end) of a row of any window, an element of all windows after the other.
template <class T, class Index>
void pool_some(const T* plane, const PoolGeometry& g, int64_t oy, int64_t begin, int64_t end, T* y,
               Index* indices) {
  std::array<int32_t, kAtATime> at;
  std::fill_n(y + begin, end - begin, -std::numeric_limits<T>::infinity());
  std::fill_n(at.data(), end - begin, -1);
  const int64_t stride = g.stride.w;
  for (int64_t ky = 0; ky < g.kernel.h; ++ky) {
    const int64_t iy = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kernel.w; ++kx) {
      // Output i reads column i * stride + offset.
      const int64_t offset = kx * g.dilation.w - g.padding.w;
      const int64_t first = std::max(begin, offset < 0 ? (-offset + stride - 1) / stride : 0);
      const int64_t last = std::min(end, (g.w - offset + stride - 1) / stride);
      if (first >= last) continue;
      const auto take = stride == 1   ? &take_element<1, T>
                        : stride == 2 ? &take_element<2, T>
                                      : &take_element<0, T>;
      take(plane + iy * g.w + first * stride + offset, stride,
           static_cast<int32_t>(ky * g.kernel.w + kx), first - begin, last - begin, y + begin,
           at.data());
    }
  }
  std::transform(at.begin(), at.begin() + (end - begin), indices + begin,
                 [](int32_t i) { return static_cast<Index>(i); });
}

template <class T, class Index>
void pool_row(const T* plane, const PoolGeometry& g, int64_t oy, T* y, Index* indices) {
  for (int64_t begin = 0; begin < g.ow; begin += kAtATime)
    pool_some(plane, g, oy, begin, std::min(g.ow, begin + kAtATime), y, indices);
}

/// `count` outputs (a multiple of the vector's length) of a row; the window is 2 x 2.
template <class D>
HWY_INLINE void pool_2x2_row(D d, const float* row, int64_t width, int64_t count, float* y,
                             uint8_t* indices) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = 0; x < count; x += lanes) {
    hn::Vec<D> best, b, c, e;
    hn::LoadInterleaved2(d, row + 2 * x, best, b);
    hn::LoadInterleaved2(d, row + width + 2 * x, c, e);
    auto index = hn::Zero(di);
    const auto consider = [&](auto v, int32_t at) HWY_ATTR {
      const auto wins = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
      best = hn::IfThenElse(wins, v, best);
      index = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, at), index);
    };
    consider(b, 1);
    consider(c, 2);
    consider(e, 3);
    hn::StoreU(best, d, y + x);
    hn::StoreU(hn::DemoteTo(bytes, index), bytes, indices + x);
  }
}

/// A whole row of at least one vector; the last vector overlaps what is done already.
template <class D>
HWY_INLINE void pool_2x2(D d, const float* plane, const PoolGeometry& g, int64_t oy, float* y,
                         uint8_t* indices) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = 2 * oy * g.w, count = g.ow / lanes * lanes, last = g.ow - lanes;
  pool_2x2_row(d, plane + first, g.w, count, y, indices);
  if (count < g.ow) pool_2x2_row(d, plane + first + 2 * last, g.w, lanes, y + last, indices + last);
}

/// Does a row of outputs of 2 x 2 windows, if it is as long as a vector; returns whether it did.
template <class T, class Index>
bool pool_row_fast(const T* plane, const PoolGeometry& g, int64_t oy, T* y, Index* indices) {
  if constexpr (sizeof(T) == 4 && sizeof(Index) == 1) {
    const hn::CappedTag<float, 8> wide;
    const hn::CappedTag<float, 4> narrow;
    if (g.ow >= static_cast<int64_t>(hn::Lanes(wide)))
      pool_2x2(wide, plane, g, oy, y, indices);
    else if (g.ow >= static_cast<int64_t>(hn::Lanes(narrow)))
      pool_2x2(narrow, plane, g, oy, y, indices);
    else
      return false;
    return true;
  } else {
    return false;
  }
}

/// Of channels [begin, end) of a window; `best` and `indices` are of all channels.
template <class T, class Index>
void pool_pixel(const T* x, const PoolGeometry& g, int64_t row, int64_t ox, int64_t begin,
                int64_t end, T* HWY_RESTRICT best, Index* HWY_RESTRICT indices) {
  std::array<int32_t, kAtATime> at;
  std::fill_n(best + begin, end - begin, -std::numeric_limits<T>::infinity());
  std::fill_n(at.data(), end - begin, -1);
  for_each_element(g, row / g.oh, row % g.oh, ox, [&](int64_t from, int32_t index) {
    take_element<1>(x + from + begin, 1, index, 0, end - begin, best + begin, at.data());
  });
  std::transform(at.begin(), at.begin() + (end - begin), indices + begin,
                 [](int32_t i) { return static_cast<Index>(i); });
}

template <class T, class Index>
void max_pool_pixels(const T* x, T* y, Index* indices, const PoolGeometry& g) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.ow * g.c * 4));
  parallel_for(g.n * g.oh, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t ox = 0; ox < g.ow; ++ox)
        for (int64_t c = 0; c < g.c; c += kAtATime)
          pool_pixel(x, g, row, ox, c, std::min(g.c, c + kAtATime), y + (row * g.ow + ox) * g.c,
                     indices + (row * g.ow + ox) * g.c);
  });
}

template <class T, class Index>
void scatter_pixels(const T* dy, const Index* indices, T* dx, const PoolGeometry& g) {
  const int64_t image = g.h * g.w * g.c;
  parallel_for(g.n, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, image)),
               [&](int64_t begin, int64_t end) {
                 std::fill_n(dx + begin * image, (end - begin) * image, T(0));
                 for (int64_t row = begin * g.oh; row < end * g.oh; ++row)
                   for (int64_t ox = 0; ox < g.ow; ++ox) {
                     const T* HWY_RESTRICT from = dy + (row * g.ow + ox) * g.c;
                     const Index* HWY_RESTRICT at = indices + (row * g.ow + ox) * g.c;
                     for_each_element(
                         g, row / g.oh, row % g.oh, ox, [&](int64_t to, int32_t index) {
                           T* HWY_RESTRICT d = dx + to;
                           for (int64_t c = 0; c < g.c; ++c)
                             d[c] += static_cast<int32_t>(at[c]) == index ? from[c] : T(0);
                         });
                   }
               });
}

template <class T, class Index>
void gather_pixels(const T* x, const Index* indices, T* y, const PoolGeometry& g) {
  const Offsets<Index> offsets(g);
  for (int64_t row = 0; row < g.n * g.oh; ++row)
    for (int64_t ox = 0; ox < g.ow; ++ox)
      for (int64_t c = 0; c < g.c; ++c) {
        const int64_t i = (row * g.ow + ox) * g.c + c;
        const Index at = indices[i];
        if (at == backend::kNoElement<Index>)
          y[i] = T(0);
        else
          y[i] =
              x[(row / g.oh * g.h * g.w + offsets.first(row % g.oh, ox) + offsets[at]) * g.c + c];
      }
}

template <class T, class Index>
void largest(const Tensor& x, Tensor& y, Tensor& indices, const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  T* py = static_cast<T*>(y.raw());
  Index* pp = static_cast<Index*>(indices.raw());
  if (are_nhwc(x, y)) return max_pool_pixels(px, py, pp, g);
  const bool is_2x2 = g.kernel == Pair(2) && g.stride == Pair(2) && g.padding == Pair(0) &&
                      g.dilation == Pair(1) && 2 * g.oh <= g.h && 2 * g.ow <= g.w;
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.h * g.w));
  parallel_for(g.n * g.c, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t oy = 0; oy < g.oh; ++oy) {
        const T* from = px + plane * g.h * g.w;
        const int64_t at = (plane * g.oh + oy) * g.ow;
        if (!is_2x2 || !pool_row_fast(from, g, oy, py + at, pp + at))
          pool_row(from, g, oy, py + at, pp + at);
      }
  });
}

/// visit(element of the large tensor, element of the pooled one) for each window of planes
/// [begin, end) that has more than padding.
template <class Index, class Visit>
HWY_INLINE void for_each_maximum(const Index* indices, const PoolGeometry& g,
                                 const Offsets<Index>& offsets, int64_t begin, int64_t end,
                                 const Visit& visit) {
  for (int64_t plane = begin; plane < end; ++plane)
    for (int64_t oy = 0; oy < g.oh; ++oy) {
      const int64_t row = (plane * g.oh + oy) * g.ow;
      const int64_t first = plane * g.h * g.w + offsets.first(oy, 0);
      for (int64_t ox = 0; ox < g.ow; ++ox)
        if (const Index at = indices[row + ox]; at != backend::kNoElement<Index>)
          visit(first + ox * g.stride.w + offsets[at], row + ox);
    }
}

template <class T, class Index>
void scatter_to(const Tensor& dy, const Tensor& indices, Tensor& dx, const PoolGeometry& g) {
  const T* py = static_cast<const T*>(dy.raw());
  const Index* pp = static_cast<const Index*>(indices.raw());
  T* px = static_cast<T*>(dx.raw());
  if (are_nhwc(dy, dx)) return scatter_pixels(py, pp, px, g);
  const Offsets<Index> offsets(g);
  const int64_t in = g.h * g.w;
  parallel_for(g.n * g.c, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, in)),
               [&](int64_t begin, int64_t end) {
                 std::fill_n(px + begin * in, (end - begin) * in, T(0));
                 for_each_maximum(pp, g, offsets, begin, end,
                                  [&](int64_t to, int64_t from) { px[to] += py[from]; });
               });
}

template <class T, class Index>
void gather_from(const Tensor& x, const Tensor& indices, Tensor& y, const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  const Index* pp = static_cast<const Index*>(indices.raw());
  T* py = static_cast<T*>(y.raw());
  if (are_nhwc(x, y)) return gather_pixels(px, pp, py, g);
  std::fill_n(py, y.numel(), T(0));
  for_each_maximum(pp, g, Offsets<Index>(g), 0, g.n * g.c,
                   [&](int64_t from, int64_t to) { py[to] = px[from]; });
}

// By the type of the indices.
template <class T>
void max_pool(const Context&, const Tensor& x, Tensor& y, Tensor& indices, const PoolGeometry& g) {
  const auto run = indices.dtype() == DType::u8 ? &largest<T, uint8_t> : &largest<T, int32_t>;
  run(x, y, indices, g);
}
template <class T>
void scatter(const Context&, const Tensor& dy, const Tensor& indices, Tensor& dx,
             const PoolGeometry& g) {
  const auto run = indices.dtype() == DType::u8 ? &scatter_to<T, uint8_t> : &scatter_to<T, int32_t>;
  run(dy, indices, dx, g);
}
template <class T>
void gather(const Context&, const Tensor& x, const Tensor& indices, Tensor& y,
            const PoolGeometry& g) {
  const auto run =
      indices.dtype() == DType::u8 ? &gather_from<T, uint8_t> : &gather_from<T, int32_t>;
  run(x, indices, y, g);
}

template <class T>
void register_dtype() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::register_kernel("max_pool2d", cpu, dtype_of<T>, &max_pool<T>);
  backend::register_kernel("max_pool2d_scatter", cpu, dtype_of<T>, &scatter<T>);
  backend::register_kernel("max_pool2d_gather", cpu, dtype_of<T>, &gather<T>);
}

void register_max_pool() {
  register_dtype<float>();
  register_dtype<double>();
  register_rows_through_f32<&max_pool<float>, kPooledAxes, 0, 1, 2>("max_pool2d");
  register_rows_through_f32<&scatter<float>, kPooledAxes, 0, 1, 2>("max_pool2d_scatter");
  register_rows_through_f32<&gather<float>, kPooledAxes, 0, 1, 2>("max_pool2d_gather");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_max_pool);
#endif
