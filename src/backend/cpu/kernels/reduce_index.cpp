// Reductions of one axis that need positions or order: max and min with indices, cumsum. Inputs are
// row-major, seen as (outer, n, inner).
#include <algorithm>
#include <array>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

struct Axis {
  int64_t outer = 1, n, inner = 1;
  Axis(const Tensor& x, int axis) : n(x.shape()[axis]) {
    for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x.shape()[i];
  }
};

constexpr int64_t kLines = 64;  // whose running sums stay in the L1 cache

template <bool kLargest, class T>
bool better(T a, T b) {  // NaN beats everything but an earlier NaN
  if (b != b) return false;
  return (kLargest ? a > b : a < b) || a != a;
}

template <bool kLargest, class T>
void pick_row(const T* x, int64_t n, T* value, int64_t* index) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (better<kLargest>(x[i], x[best])) best = i;
  *value = x[best];
  *index = best;
}

template <bool kLargest, class T>
void pick(const Context&, const Tensor& tx, Tensor& values, Tensor& indices, int axis) {
  const Axis a(tx, axis);
  const T* x = static_cast<const T*>(tx.raw());
  T* value = static_cast<T*>(values.raw());
  int64_t* index = static_cast<int64_t*>(indices.raw());
  const int64_t grain =
      std::max<int64_t>(1, kElementwiseGrain / (a.n * std::max<int64_t>(a.inner, 1)));
  parallel_for(a.outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* from = x + o * a.n * a.inner;
      T* v = value + o * a.inner;
      int64_t* at = index + o * a.inner;
      if (a.inner == 1) {
        pick_row<kLargest>(from, a.n, v, at);
        continue;
      }
      std::copy_n(from, a.inner, v);
      std::fill_n(at, a.inner, int64_t{0});
      for (int64_t i = 1; i < a.n; ++i)
        for (int64_t c = 0; c < a.inner; ++c)
          if (better<kLargest>(from[i * a.inner + c], v[c])) {
            v[c] = from[i * a.inner + c];
            at[c] = i;
          }
    }
  });
}

/// Running sums of kWidth lines, or of `width` where that is 0, whose elements lie `step` apart.
template <int64_t kWidth, class Total, class T, class Out>
void sum_lines(const T* x, Out* y, int64_t n, int64_t step, int64_t line_step, int64_t width) {
  std::array<Total, kWidth ? kWidth : kLines> total{};
  if constexpr (kWidth) width = kWidth;
  for (int64_t i = 0; i < n; ++i, x += step, y += step)
    for (int64_t c = 0; c < width; ++c) {
      total[c] += static_cast<Total>(x[c * line_step]);
      y[c * line_step] = static_cast<Out>(total[c]);
    }
}

/// Along rows a few at a time, so that an addition need not wait for the one before; down columns
/// in vectors.
template <class T>
void cumsum(const Context&, const Tensor& tx, Tensor& ty, int axis, bool reverse) {
  using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;  // wraps
  const Axis a(tx, axis);
  if (a.n == 0 || a.outer == 0 || a.inner == 0) return;
  const T* x = static_cast<const T*>(tx.raw());
  Out* y = static_cast<Out*>(ty.raw());
  const int64_t first = reverse ? (a.n - 1) * a.inner : 0, step = reverse ? -a.inner : a.inner;
  if (a.inner == 1) {
    constexpr int64_t kRows = 8;
    parallel_for(a.outer, std::max<int64_t>(1, kElementwiseGrain / a.n),
                 [&](int64_t begin, int64_t end) {
                   while (begin < end) {
                     const bool many = begin + kRows <= end;
                     const int64_t at = begin * a.n + first;
                     many ? sum_lines<kRows, Total>(x + at, y + at, a.n, step, a.n, kRows)
                          : sum_lines<1, Total>(x + at, y + at, a.n, step, a.n, 1);
                     begin += many ? kRows : 1;
                   }
                 });
    return;
  }
  const int64_t tiles = (a.inner + kLines - 1) / kLines;
  const int64_t work = a.n * std::min(a.inner, kLines);
  parallel_for(a.outer * tiles, std::max<int64_t>(1, kElementwiseGrain / work),
               [&](int64_t begin, int64_t end) {
                 for (; begin < end; ++begin) {
                   const int64_t column = begin % tiles * kLines;
                   const int64_t at = begin / tiles * a.n * a.inner + column + first;
                   sum_lines<0, Total>(x + at, y + at, a.n, step, 1,
                                       std::min(kLines, a.inner - column));
                 }
               });
}

template <class... T>
bool register_all() {
  ((backend::register_kernel("max_index", DeviceKind::cpu, dtype_of<T>, &pick<true, T>),
    backend::register_kernel("min_index", DeviceKind::cpu, dtype_of<T>, &pick<false, T>),
    backend::register_kernel("cumsum", DeviceKind::cpu, dtype_of<T>, &cumsum<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, int64_t, int32_t, int8_t, uint8_t, bool>() &&
                        register_through_f32<&pick<true, float>>("max_index") &&
                        register_through_f32<&pick<false, float>>("min_index") &&
                        register_through_f32<&cumsum<float>>("cumsum");

}  // namespace
}  // namespace brim::cpu
