// Average poolings on the CPU: a window of each output, its mean or the spread of its gradient.
#include <algorithm>

#include "backend/cpu/parallel.h"
#include "backend/geometry.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

using backend::PoolGeometry;

/// Input range of one output along one axis, and how many elements its mean counts.
struct Window {
  int64_t begin, end, count;
};

Window pool_window(int64_t i, int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                   bool include_pad) {
  const int64_t begin = i * stride - padding, end = std::min(begin + kernel, in + padding);
  const int64_t b = std::max<int64_t>(begin, 0), e = std::min(end, in);
  return {b, e, include_pad ? end - begin : e - b};
}
Window adaptive_window(int64_t i, int64_t in, int64_t out) {
  const int64_t b = i * in / out, e = ((i + 1) * in + out - 1) / out;
  return {b, e, e - b};
}

/// Calls visit(x plane, y plane, output index, rows, columns) for every output of every plane.
template <bool kAdaptive, class Visit>
void for_each_window(const PoolGeometry& g, const Visit& visit) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.h * g.w));
  parallel_for(g.n * g.c, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t y = 0; y < g.oh; ++y) {
        const Window rows = kAdaptive ? adaptive_window(y, g.h, g.oh)
                                      : pool_window(y, g.h, g.kernel.h, g.stride.h, g.padding.h,
                                                    g.count_include_pad);
        for (int64_t x = 0; x < g.ow; ++x) {
          const Window cols = kAdaptive ? adaptive_window(x, g.w, g.ow)
                                        : pool_window(x, g.w, g.kernel.w, g.stride.w, g.padding.w,
                                                      g.count_include_pad);
          visit(plane * g.h * g.w, (plane * g.oh + y) * g.ow + x, rows, cols);
        }
      }
  });
}

template <class T, bool kAdaptive>
void mean(const Context&, const Tensor& x, Tensor& y, const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  T* py = static_cast<T*>(y.raw());
  for_each_window<kAdaptive>(g, [&](int64_t plane, int64_t out, Window rows, Window cols) {
    T sum = 0;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = cols.begin; c < cols.end; ++c) sum += px[plane + r * g.w + c];
    py[out] = sum / static_cast<T>(rows.count * cols.count);
  });
}

template <class T, bool kAdaptive>
void spread(const Context&, const Tensor& dy, Tensor& dx, const PoolGeometry& g) {
  const T* py = static_cast<const T*>(dy.raw());
  T* px = static_cast<T*>(dx.raw());
  std::fill_n(px, dx.numel(), T(0));
  for_each_window<kAdaptive>(g, [&](int64_t plane, int64_t out, Window rows, Window cols) {
    const T share = py[out] / static_cast<T>(rows.count * cols.count);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = cols.begin; c < cols.end; ++c) px[plane + r * g.w + c] += share;
  });
}

template <class T>
bool register_all() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  return backend::register_kernel("avg_pool2d", cpu, dtype_of<T>, &mean<T, false>) &&
         backend::register_kernel("avg_pool2d_spread", cpu, dtype_of<T>, &spread<T, false>) &&
         backend::register_kernel("adaptive_avg_pool2d", cpu, dtype_of<T>, &mean<T, true>) &&
         backend::register_kernel("adaptive_avg_pool2d_spread", cpu, dtype_of<T>, &spread<T, true>);
}

const bool registered = register_all<float>() && register_all<double>();

}  // namespace
}  // namespace brim::cpu
