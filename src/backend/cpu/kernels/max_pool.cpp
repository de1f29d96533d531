// Max pooling on the CPU. Windows of 2 x 2 with stride 2, which most networks use, are vectorised:
// a vector of outputs needs the even and odd columns of two rows. Other windows are taken tap by
// tap for a row of outputs. Over nhwc tensors vectors run along the channels, for any window.
#include "backend/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/max_pool.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <algorithm>
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

/// visit(offset of the first channel, index of the pixel in its plane) for each input pixel of a
/// window.
template <class Visit>
HWY_INLINE void for_each_tap(const PoolGeometry& g, int64_t image, int64_t oy, int64_t ox,
                             const Visit& visit) {
  for (int64_t ky = 0; ky < g.kernel.h; ++ky) {
    const int64_t iy = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kernel.w; ++kx) {
      const int64_t ix = ox * g.stride.w - g.padding.w + kx * g.dilation.w;
      if (ix < 0 || ix >= g.w) continue;
      const int64_t at = iy * g.w + ix;
      visit((image * g.h * g.w + at) * g.c, static_cast<int32_t>(at));
    }
  }
}

/// Outputs [first, last) of a row take one more element of their windows, which lie `kStride` (0:
/// `stride`) apart from `x` on. A NaN wins, as it must not be lost.
template <int kStride, class T>
HWY_INLINE void take_tap(const T* HWY_RESTRICT x, int64_t stride, int32_t index, int64_t first,
                         int64_t last, T* HWY_RESTRICT best, int32_t* HWY_RESTRICT at) {
  const int64_t step = kStride > 0 ? kStride : stride;
  for (int64_t i = first; i < last; ++i) {
    const T v = x[(i - first) * step];
    const bool wins = (at[i] < 0) | (v > best[i]) | (v != v);
    best[i] = wins ? v : best[i];
    at[i] = wins ? index + static_cast<int32_t>((i - first) * step) : at[i];
  }
}

/// A row of outputs of any window, an element of all windows after the other.
template <class T>
void pool_row(const T* plane, const PoolGeometry& g, int64_t oy, T* y, int32_t* indices) {
  std::fill_n(y, g.ow, -std::numeric_limits<T>::infinity());
  std::fill_n(indices, g.ow, -1);
  const int64_t stride = g.stride.w;
  for (int64_t ky = 0; ky < g.kernel.h; ++ky) {
    const int64_t iy = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kernel.w; ++kx) {
      // Output i reads column i * stride + offset.
      const int64_t offset = kx * g.dilation.w - g.padding.w;
      const int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
      const int64_t last = std::min(g.ow, (g.w - offset + stride - 1) / stride);
      if (first >= last) continue;
      const int64_t from = iy * g.w + first * stride + offset;
      const auto take = stride == 1   ? &take_tap<1, T>
                        : stride == 2 ? &take_tap<2, T>
                                      : &take_tap<0, T>;
      take(plane + from, stride, static_cast<int32_t>(from), first, last, y, indices);
    }
  }
}

/// `count` outputs (a multiple of the vector's length) of a row; the window is 2 x 2.
template <class D>
HWY_INLINE void pool_2x2_row(D d, const float* row, int64_t width, int32_t first, int64_t count,
                             float* y, int32_t* indices) {
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto w = hn::Set(di, static_cast<int32_t>(width));
  const auto one = hn::Set(di, 1);
  const auto steps = hn::Add(hn::Iota(di, 0), hn::Iota(di, 0));
  for (int64_t x = 0; x < count; x += lanes) {
    hn::Vec<D> best, b, c, e;
    hn::LoadInterleaved2(d, row + 2 * x, best, b);
    hn::LoadInterleaved2(d, row + width + 2 * x, c, e);
    const auto base = hn::Add(hn::Set(di, first + static_cast<int32_t>(2 * x)), steps);
    auto index = base;
    const auto consider = [&](auto v, auto at) HWY_ATTR {
      const auto wins = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
      best = hn::IfThenElse(wins, v, best);
      index = hn::IfThenElse(hn::RebindMask(di, wins), at, index);
    };
    consider(b, hn::Add(base, one));
    consider(c, hn::Add(base, w));
    consider(e, hn::Add(hn::Add(base, w), one));
    hn::StoreU(best, d, y + x);
    hn::StoreU(index, di, indices + x);
  }
}

/// A whole row of at least one vector; the last vector overlaps what is done already.
template <class D>
HWY_INLINE void pool_2x2(D d, const float* plane, const PoolGeometry& g, int64_t oy, float* y,
                         int32_t* indices) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = 2 * oy * g.w, count = g.ow / lanes * lanes, last = g.ow - lanes;
  pool_2x2_row(d, plane + first, g.w, static_cast<int32_t>(first), count, y, indices);
  if (count < g.ow)
    pool_2x2_row(d, plane + first + 2 * last, g.w, static_cast<int32_t>(first + 2 * last), lanes,
                 y + last, indices + last);
}

/// Does a row of outputs of 2 x 2 windows, if it is as long as a vector; returns whether it did.
template <class T>
bool pool_row_fast(const T* plane, const PoolGeometry& g, int64_t oy, T* y, int32_t* indices) {
  if constexpr (sizeof(T) == 4) {
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

template <class T>
void max_pool_pixels(const T* x, T* y, int32_t* indices, const PoolGeometry& g) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.ow * g.c * 4));
  parallel_for(g.n * g.oh, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t ox = 0; ox < g.ow; ++ox) {
        T* HWY_RESTRICT best = y + (row * g.ow + ox) * g.c;
        int32_t* HWY_RESTRICT at = indices + (row * g.ow + ox) * g.c;
        std::fill_n(best, g.c, -std::numeric_limits<T>::infinity());
        std::fill_n(at, g.c, -1);
        for_each_tap(g, row / g.oh, row % g.oh, ox, [&](int64_t from, int32_t index) {
          const T* HWY_RESTRICT v = x + from;
          for (int64_t c = 0; c < g.c; ++c) {
            const bool wins = (at[c] < 0) | (v[c] > best[c]) | (v[c] != v[c]);
            best[c] = wins ? v[c] : best[c];
            at[c] = wins ? index : at[c];
          }
        });
      }
  });
}

template <class T>
void scatter_pixels(const T* dy, const int32_t* indices, T* dx, const PoolGeometry& g) {
  const int64_t image = g.h * g.w * g.c;
  parallel_for(g.n, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, image)),
               [&](int64_t begin, int64_t end) {
                 std::fill_n(dx + begin * image, (end - begin) * image, T(0));
                 for (int64_t row = begin * g.oh; row < end * g.oh; ++row)
                   for (int64_t ox = 0; ox < g.ow; ++ox) {
                     const T* HWY_RESTRICT from = dy + (row * g.ow + ox) * g.c;
                     const int32_t* HWY_RESTRICT at = indices + (row * g.ow + ox) * g.c;
                     for_each_tap(g, row / g.oh, row % g.oh, ox, [&](int64_t to, int32_t index) {
                       T* HWY_RESTRICT d = dx + to;
                       for (int64_t c = 0; c < g.c; ++c) d[c] += at[c] == index ? from[c] : T(0);
                     });
                   }
               });
}

template <class T>
void gather_pixels(const T* x, const int32_t* indices, T* y, const PoolGeometry& g) {
  const int64_t in = g.h * g.w, out = g.oh * g.ow;
  for (int64_t i = 0; i < g.n * out; ++i)
    for (int64_t c = 0; c < g.c; ++c) {
      const int32_t at = indices[i * g.c + c];
      y[i * g.c + c] = at >= 0 ? x[(i / out * in + at) * g.c + c] : T(0);
    }
}

template <class T>
void max_pool(const Context&, const Tensor& x, Tensor& y, Tensor& indices, const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  T* py = static_cast<T*>(y.raw());
  int32_t* pp = static_cast<int32_t*>(indices.raw());
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

template <class T>
void scatter(const Context&, const Tensor& dy, const Tensor& indices, Tensor& dx,
             const PoolGeometry& g) {
  const T* py = static_cast<const T*>(dy.raw());
  const int32_t* pp = static_cast<const int32_t*>(indices.raw());
  T* px = static_cast<T*>(dx.raw());
  if (are_nhwc(dy, dx)) return scatter_pixels(py, pp, px, g);
  const int64_t in = g.h * g.w, out = g.oh * g.ow;
  parallel_for(g.n * g.c, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, in)),
               [&](int64_t begin, int64_t end) {
                 std::fill_n(px + begin * in, (end - begin) * in, T(0));
                 for (int64_t plane = begin; plane < end; ++plane)
                   for (int64_t i = plane * out; i < (plane + 1) * out; ++i)
                     if (pp[i] >= 0) px[plane * in + pp[i]] += py[i];  // -1: all padding
               });
}

template <class T>
void gather(const Context&, const Tensor& x, const Tensor& indices, Tensor& y,
            const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  const int32_t* pp = static_cast<const int32_t*>(indices.raw());
  T* py = static_cast<T*>(y.raw());
  if (are_nhwc(x, y)) return gather_pixels(px, pp, py, g);
  const int64_t in = g.h * g.w, out = g.oh * g.ow;
  for (int64_t plane = 0; plane < g.n * g.c; ++plane)
    for (int64_t i = plane * out; i < (plane + 1) * out; ++i)
      py[i] = pp[i] >= 0 ? px[plane * in + pp[i]] : T(0);
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
