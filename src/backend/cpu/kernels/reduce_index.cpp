// Reductions of one axis that need positions or order: max and min with indices, cumsum. Inputs are
// row-major, seen as (outer, n, inner).
#include <algorithm>

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

template <class T>
void cumsum(const Context&, const Tensor& tx, Tensor& ty, int axis, bool reverse) {
  using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;  // wraps
  const Axis a(tx, axis);
  const T* x = static_cast<const T*>(tx.raw());
  Out* y = static_cast<Out*>(ty.raw());
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(a.n, 1));
  parallel_for(a.outer * a.inner, grain, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      const int64_t first = begin / a.inner * a.n * a.inner + begin % a.inner;
      Total total = 0;
      for (int64_t i = 0; i < a.n; ++i) {
        const int64_t at = first + (reverse ? a.n - 1 - i : i) * a.inner;
        total += static_cast<Total>(x[at]);
        y[at] = static_cast<Out>(total);
      }
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
