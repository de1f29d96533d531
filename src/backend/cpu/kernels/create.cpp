// Regular patterns on the CPU: arange, linspace, and the triangles of matrices.
#include <brim/formula/formula.h>

#include "backend/cpu/elementwise/loop.h"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cpu {
namespace {

using formula::Params;

template <class T>
T from_double(double v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else if constexpr (std::is_integral_v<T> && sizeof(T) < 8 && !std::is_same_v<T, bool>)
    return static_cast<T>(static_cast<int64_t>(v));  // wraps
  else
    return static_cast<T>(v);
}

template <class T>
void arange(const Context&, Tensor& y, const Params& p) {
  T* out = static_cast<T*>(y.raw());
  parallel_for(y.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    // Short counters of a block become f64 in vectors.
    for (constexpr int64_t kBlock = 4096; begin < end; begin += kBlock) {
      const double first = static_cast<double>(begin);
      const int count = static_cast<int>(std::min(kBlock, end - begin));
      for (int i = 0; i < count; ++i) out[begin + i] = from_double<T>(p.a + (first + i) * p.b);
    }
  });
}

template <class T>
void linspace(const Context&, Tensor& y, const Params& p) {
  T* out = static_cast<T*>(y.raw());
  const int64_t n = y.numel();
  const double step = n > 1 ? (p.b - p.a) / static_cast<double>(n - 1) : 0;
  parallel_for(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    // From both ends, so that the last element is exactly the end.
    for (int64_t i = begin; i < end; ++i)
      out[i] = from_double<T>(i < n / 2 || n == 1 ? p.a + step * static_cast<double>(i)
                                                  : p.b - step * static_cast<double>(n - 1 - i));
  });
}

/// Keeps columns [row + first, ...) of x when `upper`, else columns (..., row + first].
template <class T>
void triangle(const Context&, const Tensor& x, Tensor& y, int64_t first, bool upper) {
  const T* from = static_cast<const T*>(x.raw());
  T* to = static_cast<T*>(y.raw());
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape().back();
  if (y.numel() == 0) return;
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / columns);
  parallel_for(y.numel() / columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t split = std::clamp<int64_t>(r % rows + first + (upper ? 0 : 1), 0, columns);
      const T* row = from + r * columns;
      T* out = to + r * columns;
      std::fill(upper ? out : out + split, upper ? out + split : out + columns, T{});
      upper ? std::copy(row + split, row + columns, out + split) : std::copy_n(row, split, out);
    }
  });
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("arange", DeviceKind::cpu, dtype_of<T>, &arange<T>);
      backend::register_kernel("linspace", DeviceKind::cpu, dtype_of<T>, &linspace<T>);
      backend::register_kernel("triangle", DeviceKind::cpu, dtype_of<T>, &triangle<T>);
    });

}  // namespace
}  // namespace brim::cpu
