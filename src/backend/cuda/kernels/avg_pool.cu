// Average poolings: the mean of each window, by cuDNN where that is faster, and the spread of a
// gradient over the windows.
#include <optional>

#include "backend/cuda/elementwise.cuh"
#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/pool.cuh"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::PoolGeometry;

/// One axis of a pooling: windows of `kernel` elements each `stride`, or, where kAdaptive, `out`
/// windows that share the elements evenly.
template <bool kAdaptive>
struct Axis {
  int64_t in, out, kernel, stride, padding;
  bool count_padding;

  /// The elements that output i is the mean of.
  __device__ Range window(int64_t i) const {
    if constexpr (kAdaptive) return {i * in / out, ((i + 1) * in + out - 1) / out};
    const int64_t begin = i * stride - padding;
    return {larger(begin, 0), smaller(begin + kernel, in)};
  }
  /// How many elements that mean counts.
  __device__ int64_t count(int64_t i) const {
    if (!kAdaptive && count_padding) {
      const int64_t begin = i * stride - padding;
      return smaller(begin + kernel, in + padding) - begin;
    }
    const Range r = window(i);
    return r.end - r.begin;
  }
  /// The outputs whose windows hold element i.
  __device__ Range outputs(int64_t i) const {
    if constexpr (kAdaptive) return {i * out / in, ((i + 1) * out + in - 1) / in};
    const int64_t past = i + padding - kernel;  // windows that begin here end before i
    return {past < 0 ? 0 : past / stride + 1, smaller((i + padding) / stride + 1, out)};
  }
};

template <bool kAdaptive>
Axis<kAdaptive> rows(const PoolGeometry& g) {
  return {g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h, g.count_include_pad};
}
template <bool kAdaptive>
Axis<kAdaptive> columns(const PoolGeometry& g) {
  return {g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w, g.count_include_pad};
}

template <class T, bool kAdaptive>
struct Mean {
  Images<const T> from;
  Images<T> to;
  Axis<kAdaptive> rows, columns;

  __device__ void operator()(const PlaceInImages& p) const {
    const Range ys = rows.window(p.y), xs = columns.window(p.x);
    Compute<T> sum = 0;
    for (int64_t y = ys.begin; y < ys.end; ++y)
      for (int64_t x = xs.begin; x < xs.end; ++x) sum += widen(from.at(p.n, p.c, y, x));
    to.at(p.n, p.c, p.y, p.x) =
        narrow<T>(sum / static_cast<Compute<T>>(rows.count(p.y) * columns.count(p.x)));
  }
};

template <class T, bool kAdaptive>
struct Spread {
  Images<const T> dy;
  Images<T> dx;
  Axis<kAdaptive> rows, columns;

  __device__ void operator()(const PlaceInImages& p) const {
    const Range ys = rows.outputs(p.y), xs = columns.outputs(p.x);
    Compute<T> sum = 0;
    for (int64_t y = ys.begin; y < ys.end; ++y)
      for (int64_t x = xs.begin; x < xs.end; ++x)
        sum += widen(dy.at(p.n, p.c, y, x)) /
               static_cast<Compute<T>>(rows.count(y) * columns.count(x));
    dx.at(p.n, p.c, p.y, p.x) = narrow<T>(sum);
  }
};

/// Whether all windows of an axis lie within the padded image. cuDNN counts those that do not
/// (ceil mode) in another way.
bool lies_within(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return padding < kernel && (in + 2 * padding - kernel) / stride + 1 == out;
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
    for_each_element(at, y,
                     Mean<T, kAdaptive>{Images<const T>(x), Images<T>(y), rows<kAdaptive>(g),
                                        columns<kAdaptive>(g)});
  };
  if (!by_dnn<T, kAdaptive>(context, x, y, g, own)) own(context);
}

template <class T, bool kAdaptive>
void spread(const Context& context, const Tensor& dy, Tensor& dx, const PoolGeometry& g) {
  for_each_element(context, dx,
                   Spread<T, kAdaptive>{Images<const T>(dy), Images<T>(dx), rows<kAdaptive>(g),
                                        columns<kAdaptive>(g)});
}

template <class T>
void register_for() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  backend::register_kernel("avg_pool2d", cuda, dtype_of<T>, &mean<T, false>);
  backend::register_kernel("avg_pool2d_spread", cuda, dtype_of<T>, &spread<T, false>);
  backend::register_kernel("adaptive_avg_pool2d", cuda, dtype_of<T>, &mean<T, true>);
  backend::register_kernel("adaptive_avg_pool2d_spread", cuda, dtype_of<T>, &spread<T, true>);
}

template <class... T>
bool register_all() {
  (register_for<T>(), ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
