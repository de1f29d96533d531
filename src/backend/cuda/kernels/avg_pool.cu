// Average poolings: the mean of each window, by cuDNN where that is faster, and the spread of a
// gradient over the windows.
#include <optional>
#include <type_traits>

#include "backend/cuda/conv/pool.cuh"
#include "backend/cuda/libraries/dnn.h"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using backend::PoolGeometry;

/// Windows of one size, and how many elements the mean of each counts.
template <class Index>
struct FixedWindows : Windows<Index> {
  bool count_padding;

  FixedWindows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
               bool count_pad)
      : Windows<Index>(in, out, kernel, stride, padding, 1), count_padding(count_pad) {}

  __device__ Index count(Index o) const {
    if (count_padding) {
      const Index begin = o * this->stride - this->padding;
      return smaller(begin + this->reach + 1, this->in + this->padding) - begin;
    }
    const Range<Index> r = this->elements(o);
    return r.end - r.begin;
  }
};

/// `out` windows that share the elements of an axis evenly.
template <class Index>
struct AdaptiveWindows {
  DivideBy<Index> in, out;

  AdaptiveWindows(int64_t in_size, int64_t out_size) : in(in_size), out(out_size) {}

  __device__ Range<Index> elements(Index o) const {
    const Index begin = o * in.size();
    return {out.quotient(begin), out.quotient(begin + in.size() + out.size() - 1)};
  }
  __device__ Range<Index> over(Index i) const {
    const Index begin = i * out.size();
    return {in.quotient(begin), in.quotient(begin + out.size() + in.size() - 1)};
  }
  __device__ Index count(Index o) const {
    const Range<Index> r = elements(o);
    return r.end - r.begin;
  }
};

template <bool kAdaptive, class Index>
auto windows(const PoolGeometry& g, int64_t in, int64_t out, int64_t Pair::*axis) {
  if constexpr (kAdaptive)
    return AdaptiveWindows<Index>(in, out);
  else
    return FixedWindows<Index>(in, out, g.kernel.*axis, g.stride.*axis, g.padding.*axis,
                               g.count_include_pad);
}
template <bool kAdaptive, class Index>
auto rows(const PoolGeometry& g) {
  return windows<kAdaptive, Index>(g, g.h, g.oh, &Pair::h);
}
template <bool kAdaptive, class Index>
auto columns(const PoolGeometry& g) {
  return windows<kAdaptive, Index>(g, g.w, g.ow, &Pair::w);
}

template <bool kAdaptive>
bool windows_fit(const PoolGeometry& g) {
  if constexpr (!kAdaptive) return windows_fit_32_bits(g);
  // Positions are products of both sizes.
  return fits_32_bits({g.h + 1, g.oh + 1}, {0, 0}) && fits_32_bits({g.w + 1, g.ow + 1}, {0, 0});
}

template <class T, class Index, int Width, class Axis>
struct Mean {
  static constexpr int kBlocksAtOnce = 3;
  Images<const T, Index> from;
  Images<T, Index> to;
  Axis rows, columns;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Range<Index> ys = rows.elements(p.y), xs = columns.elements(p.x);
    Compute<T> sum[Width] = {};
    const T* const plane = from.plane(p.n, p.c);
    for (Index y = ys.begin; y < ys.end; ++y) {
      const T* const row = plane + y * from.y;
      for (Index x = xs.begin; x < xs.end; ++x) {
        const Pack<T, Width> v = load<Width>(row + x * from.x);
#pragma unroll
        for (int k = 0; k < Width; ++k) sum[k] += widen(v.at[k]);
      }
    }
    const auto count = static_cast<Compute<T>>(int64_t{rows.count(p.y)} * columns.count(p.x));
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) result.at[k] = narrow<T>(sum[k] / count);
    store<Width>(to.at(p.n, p.c, p.y, p.x), result);
  }
};

/// dx: the sum of what windows over an element hand back, first to last. As on the CPU, each
/// divides its dy by its count, or, in nhwc, multiplies by its share.
template <class T, class Index, int Width, class Axis>
struct Spread {
  static constexpr int kBlocksAtOnce = 3;
  Images<const T, Index> dy;
  Images<T, Index> dx;
  Axis rows, columns;
  bool by_share;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Range<Index> ys = rows.over(p.y), xs = columns.over(p.x);
    Compute<T> sum[Width] = {};
    const T* const plane = dy.plane(p.n, p.c);
    for (Index y = ys.begin; y < ys.end; ++y) {
      const T* const row = plane + y * dy.y;
      const int64_t in_column = rows.count(y);
      for (Index x = xs.begin; x < xs.end; ++x) {
        const Pack<T, Width> v = load<Width>(row + x * dy.x);
        const auto count = static_cast<Compute<T>>(in_column * columns.count(x));
        const Compute<T> share = 1 / count;
#pragma unroll
        for (int k = 0; k < Width; ++k)
          sum[k] += by_share ? widen(v.at[k]) * share : widen(v.at[k]) / count;
      }
    }
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) result.at[k] = narrow<T>(sum[k]);
    store<Width>(dx.at(p.n, p.c, p.y, p.x), result);
  }
};

/// Whether all windows of an axis lie within the padded image. cuDNN counts those that do not
/// (ceil mode) in another way.
bool lies_within(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t room = in + 2 * padding - kernel;
  return padding < kernel && room >= 0 && room / stride + 1 == out;
}

/// The same as windows of one size, which adaptive ones have where they share evenly.
template <bool kAdaptive>
std::optional<PoolGeometry> for_dnn(PoolGeometry g) {
  if constexpr (kAdaptive) {
    if (g.oh == 0 || g.ow == 0 || g.h % g.oh != 0 || g.w % g.ow != 0) return {};
    g.kernel = g.stride = {g.h / g.oh, g.w / g.ow};
    g.padding = {0, 0};
    g.count_include_pad = true;
  }
  if (!lies_within(g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h) ||
      !lies_within(g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w))
    return {};
  return g;
}

/// Whether cuDNN has done it.
template <class T, bool kAdaptive>
bool by_dnn(const Context& context, const Tensor& x, Tensor& y, const PoolGeometry& g,
            const Work& own) {
  const bool planes = x.is_contiguous() && y.is_contiguous();
  const bool pixels = x.is_contiguous(MemoryFormat::nhwc) && y.is_contiguous(MemoryFormat::nhwc);
  if (y.numel() == 0 || !(planes || pixels) || !is_aligned(x.raw(), 16) || !is_aligned(y.raw(), 16))
    return false;
  const std::optional<PoolGeometry> windows = for_dnn<kAdaptive>(g);
  return windows && dnn_avg_pool(context, {dtype_of<T>, !planes, *windows, x.raw(), y.raw()}, own);
}

template <class T, bool kAdaptive>
void mean(const Context& context, const Tensor& x, Tensor& y, const PoolGeometry& g) {
  const Work own = [&](const Context& at) {
    for_each_pack<T>(at, y, {&x, &y}, windows_fit<kAdaptive>(g), [&]<class Index, int Width>() {
      const auto down = rows<kAdaptive, Index>(g);
      return Mean<T, Index, Width, std::remove_const_t<decltype(down)>>{
          Images<const T, Index>(x), Images<T, Index>(y), down, columns<kAdaptive, Index>(g)};
    });
  };
  if (!by_dnn<T, kAdaptive>(context, x, y, g, own)) own(context);
}

template <class T, bool kAdaptive>
void spread(const Context& context, const Tensor& dy, Tensor& dx, const PoolGeometry& g) {
  const bool by_share = dy.is_contiguous(MemoryFormat::nhwc) &&
                        dx.is_contiguous(MemoryFormat::nhwc) &&
                        !(dy.is_contiguous() && dx.is_contiguous());
  for_each_pack<T>(context, dx, {&dy, &dx}, windows_fit<kAdaptive>(g),
                   [&]<class Index, int Width>() {
                     const auto down = rows<kAdaptive, Index>(g);
                     return Spread<T, Index, Width, std::remove_const_t<decltype(down)>>{
                         Images<const T, Index>(dy), Images<T, Index>(dx), down,
                         columns<kAdaptive, Index>(g), by_share};
                   });
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("avg_pool2d", cuda, dtype_of<T>, &mean<T, false>);
      backend::register_kernel("avg_pool2d_spread", cuda, dtype_of<T>, &spread<T, false>);
      backend::register_kernel("adaptive_avg_pool2d", cuda, dtype_of<T>, &mean<T, true>);
      backend::register_kernel("adaptive_avg_pool2d_spread", cuda, dtype_of<T>, &spread<T, true>);
    });

}  // namespace
}  // namespace brim::cuda
