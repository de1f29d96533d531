// Average poolings on the CPU: a window of each output, its mean or the spread of its gradient.
// Vectors run along the rows of wide windows, and over nhwc tensors along the channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/avg_pool.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <algorithm>

#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/geometry.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
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

/// Over nhwc tensors: visit(offset of an input pixel, offset of an output pixel, share) for each
/// pair of a window, which is an output's `share` of it.
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

/// Sum of n numbers: in four vectors, which hide the latency of additions.
template <class T>
HWY_INLINE T sum_of(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T sum = 0;
  int64_t i = 0;
  if (n >= 4 * lanes) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a = hn::Add(a, hn::LoadU(d, x + i));
      b = hn::Add(b, hn::LoadU(d, x + i + lanes));
      c = hn::Add(c, hn::LoadU(d, x + i + 2 * lanes));
      e = hn::Add(e, hn::LoadU(d, x + i + 3 * lanes));
    }
    sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

/// Sum of a window of a plane that is `width` wide.
template <class T>
HWY_INLINE T sum_of_window(const T* plane, int64_t width, const Window& rows, const Window& cols) {
  const int64_t columns = cols.end - cols.begin;
  if (columns == width) return sum_of(plane + rows.begin * width, (rows.end - rows.begin) * width);
  T sum = 0;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const T* const row = plane + r * width + cols.begin;
    if (columns >= 16)
      sum += sum_of(row, columns);
    else
      for (int64_t c = 0; c < columns; ++c) sum += row[c];
  }
  return sum;
}

/// Channels that are summed together, in registers.
template <class T, int kVectors>
HWY_INLINE void mean_of_channels(const T* x, const PoolGeometry& g, const Window& rows,
                                 const Window& cols, T share, T* y) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t c = cols.begin; c < cols.end; ++c) {
      const T* const from = x + (r * g.w + c) * g.c;
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, from + v * lanes));
    }
  for (int v = 0; v < kVectors; ++v)
    hn::StoreU(hn::Mul(sum[v], hn::Set(d, share)), d, y + v * lanes);
}

/// The mean of a window of pixels; x: an image, y: a pixel.
template <class T>
HWY_INLINE void mean_pixel(const T* x, const PoolGeometry& g, const Window& rows,
                           const Window& cols, T* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const T share = T(1) / static_cast<T>(rows.count * cols.count);
  int64_t channel = 0;
  for (; channel + 4 * lanes <= g.c; channel += 4 * lanes)
    mean_of_channels<T, 4>(x + channel, g, rows, cols, share, y + channel);
  for (; channel + lanes <= g.c; channel += lanes)
    mean_of_channels<T, 1>(x + channel, g, rows, cols, share, y + channel);
  if (channel == g.c) return;
  std::fill(y + channel, y + g.c, T(0));
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t c = cols.begin; c < cols.end; ++c)
      for (int64_t k = channel; k < g.c; ++k) y[k] += x[(r * g.w + c) * g.c + k];
  for (int64_t k = channel; k < g.c; ++k) y[k] *= share;
}

template <class T, bool kAdaptive>
void mean_pixels(const T* x, T* y, const PoolGeometry& g) {
  const int64_t read = g.h * g.w * g.c / std::max<int64_t>(1, g.oh);  // by a row of outputs
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, read));
  parallel_for(g.n * g.oh, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const Window rows = rows_of<kAdaptive>(g, line % g.oh);
      const T* const image = x + line / g.oh * g.h * g.w * g.c;
      for (int64_t i = 0; i < g.ow; ++i)
        mean_pixel(image, g, rows, columns_of<kAdaptive>(g, i), y + (line * g.ow + i) * g.c);
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
  if (are_nhwc(x, y)) return mean_pixels<T, kAdaptive>(px, py, g);
  for_each_window<kAdaptive>(g, [&](int64_t plane, int64_t out, Window rows, Window cols) {
    py[out] = sum_of_window(px + plane, g.w, rows, cols) / static_cast<T>(rows.count * cols.count);
  });
}

template <class T, bool kAdaptive>
void spread(const Context&, const Tensor& dy, Tensor& dx, const PoolGeometry& g) {
  const T* py = static_cast<const T*>(dy.raw());
  T* px = static_cast<T*>(dx.raw());
  std::fill_n(px, dx.numel(), T(0));
  if (are_nhwc(dy, dx))
    return for_each_pixel<T, kAdaptive>(g, [&](int64_t to, int64_t from, T share) {
      for (int64_t c = 0; c < g.c; ++c) px[to + c] += py[from + c] * share;
    });
  for_each_window<kAdaptive>(g, [&](int64_t plane, int64_t out, Window rows, Window cols) {
    const T share = py[out] / static_cast<T>(rows.count * cols.count);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = cols.begin; c < cols.end; ++c) px[plane + r * g.w + c] += share;
  });
}

void register_avg_pool() {
  register_floats_by_rows<&mean<float, false>, &mean<double, false>, kPooledAxes, 0, 1>(
      "avg_pool2d");
  register_floats_by_rows<&spread<float, false>, &spread<double, false>, kPooledAxes, 0, 1>(
      "avg_pool2d_spread");
  register_floats_by_rows<&mean<float, true>, &mean<double, true>, kPooledAxes, 0, 1>(
      "adaptive_avg_pool2d");
  register_floats_by_rows<&spread<float, true>, &spread<double, true>, kPooledAxes, 0, 1>(
      "adaptive_avg_pool2d_spread");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_avg_pool);
#endif
