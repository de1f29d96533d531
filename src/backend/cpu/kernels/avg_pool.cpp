// Average poolings on the CPU: a window of each output, its mean or the spread of its gradient.
#include <algorithm>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/geometry.h"

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

/// Tensors of images whose pixels hold all channels, and not also row-major ones.
bool by_pixels(const Tensor& a, const Tensor& b) {
  return a.is_contiguous(MemoryFormat::nhwc) && b.is_contiguous(MemoryFormat::nhwc) &&
         !(a.is_contiguous() && b.is_contiguous());
}

template <bool kAdaptive>
Window rows_of(const PoolGeometry& g, int64_t y) {
  return kAdaptive ? adaptive_window(y, g.h, g.oh)
                   : pool_window(y, g.h, g.kernel.h, g.stride.h, g.padding.h, g.count_include_pad);
}
template <bool kAdaptive>
Window columns_of(const PoolGeometry& g, int64_t x) {
  return kAdaptive ? adaptive_window(x, g.w, g.ow)
                   : pool_window(x, g.w, g.kernel.w, g.stride.w, g.padding.w, g.count_include_pad);
}

/// The same over nhwc tensors: visit(offset of an input pixel, offset of an output pixel, share)
/// for each pair of a window, which is an output's `share` of it.
template <class T, bool kAdaptive, class Visit>
void for_each_pixel(const PoolGeometry& g, const Visit& visit) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.h * g.w * g.c));
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t y = 0; y < g.oh; ++y)
        for (int64_t x = 0; x < g.ow; ++x) {
          const Window rows = rows_of<kAdaptive>(g, y), cols = columns_of<kAdaptive>(g, x);
          const T share = T(1) / static_cast<T>(rows.count * cols.count);
          for (int64_t r = rows.begin; r < rows.end; ++r)
            for (int64_t c = cols.begin; c < cols.end; ++c)
              visit(((i * g.h + r) * g.w + c) * g.c, ((i * g.oh + y) * g.ow + x) * g.c, share);
        }
  });
}

/// Calls visit(x plane, y plane, output index, rows, columns) for every output of every plane.
template <bool kAdaptive, class Visit>
void for_each_window(const PoolGeometry& g, const Visit& visit) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, g.h * g.w));
  parallel_for(g.n * g.c, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t y = 0; y < g.oh; ++y) {
        const Window rows = rows_of<kAdaptive>(g, y);
        for (int64_t x = 0; x < g.ow; ++x) {
          const Window cols = columns_of<kAdaptive>(g, x);
          visit(plane * g.h * g.w, (plane * g.oh + y) * g.ow + x, rows, cols);
        }
      }
  });
}

template <class T, bool kAdaptive>
void mean(const Context&, const Tensor& x, Tensor& y, const PoolGeometry& g) {
  const T* px = static_cast<const T*>(x.raw());
  T* py = static_cast<T*>(y.raw());
  if (by_pixels(x, y)) {
    std::fill_n(py, y.numel(), T(0));
    return for_each_pixel<T, kAdaptive>(g, [&](int64_t from, int64_t to, T share) {
      for (int64_t c = 0; c < g.c; ++c) py[to + c] += px[from + c] * share;
    });
  }
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
  if (by_pixels(dy, dx))
    return for_each_pixel<T, kAdaptive>(g, [&](int64_t to, int64_t from, T share) {
      for (int64_t c = 0; c < g.c; ++c) px[to + c] += py[from + c] * share;
    });
  for_each_window<kAdaptive>(g, [&](int64_t plane, int64_t out, Window rows, Window cols) {
    const T share = py[out] / static_cast<T>(rows.count * cols.count);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = cols.begin; c < cols.end; ++c) px[plane + r * g.w + c] += share;
  });
}

const bool registered =
    register_floats<&mean<float, false>, &mean<double, false>>("avg_pool2d") &&
    register_floats<&spread<float, false>, &spread<double, false>>("avg_pool2d_spread") &&
    register_floats<&mean<float, true>, &mean<double, true>>("adaptive_avg_pool2d") &&
    register_floats<&spread<float, true>, &spread<double, true>>("adaptive_avg_pool2d_spread");

}  // namespace
}  // namespace brim::cpu
