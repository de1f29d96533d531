// Average poolings: the mean of each window, and the spread of a gradient over the windows.
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

template <class T, bool kAdaptive>
void mean(const Context& context, const Tensor& x, Tensor& y, const PoolGeometry& g) {
  for_each_element(context, y,
                   Mean<T, kAdaptive>{Images<const T>(x), Images<T>(y), rows<kAdaptive>(g),
                                      columns<kAdaptive>(g)});
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
