// Sums, means, norms, variances, extremes, products, any and all over any axes.
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/moments.cuh"
#include "backend/cuda/reduce/reduce.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

template <class T>
inline constexpr bool is_float = !std::is_integral_v<T>;
/// What sums and products of T come out as.
template <class T>
using Sum64 = std::conditional_t<is_float<T>, T, int64_t>;
template <class T>
using Double64 = std::conditional_t<is_float<T>, double, int64_t>;

template <class T>
__device__ inline T wrapping_add(T a, T b) {
  using W = formula::Wrapping<T>;
  return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
}

template <class T>
struct Sum {
  using Lane = std::conditional_t<is_float<T>, Compute<T>, int64_t>;
  using Total = Double64<T>;
  const T* x;
  Sum64<T>* y;
  double divisor;

  __device__ Lane init() const { return 0; }
  __device__ Total start() const { return 0; }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = wrapping_add(a, static_cast<Lane>(brim::cuda::widen(x[at])));
  }
  __device__ Total widen(const Lane& a) const { return static_cast<Total>(a); }
  __device__ Total combine(const Total& a, const Total& b) const { return wrapping_add(a, b); }
  __device__ void finish(int64_t result, const Total& t) const {
    if constexpr (is_float<T>)
      y[result] = narrow<T>(static_cast<Compute<T>>(t / divisor));
    else
      y[result] = t;
  }
};

/// The root of the sum of squares, in f64, which holds the squares of all f32 numbers.
template <class T>
struct RootOfSquares : DoubleSum {
  const T* x;
  T* y;

  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    const double v = static_cast<double>(brim::cuda::widen(x[at]));
    a += v * v;
  }
  __device__ Total combine(const Total& a, const Total& b) const { return a + b; }
  __device__ void finish(int64_t result, const Total& t) const {
    y[result] = narrow<T>(static_cast<Compute<T>>(std::sqrt(t)));
  }
};

/// The variance or its root, in f64 as well.
template <class T, bool kRoot>
struct Variance {
  using Lane = FewMoments<double>;
  using Total = Moments;
  const T* x;
  T* y;
  double divisor;

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane.add(static_cast<double>(brim::cuda::widen(x[at])));
  }
  __device__ Total widen(const Lane& lane) const { return lane.moments(); }
  __device__ Total combine(const Total& a, const Total& b) const { return Moments::merged(a, b); }
  __device__ void finish(int64_t result, const Total& m) const {
    const double var = m.squares / divisor;
    y[result] = narrow<T>(static_cast<Compute<T>>(kRoot ? std::sqrt(var) : var));
  }
};

/// The largest or smallest element; NaN wins.
template <class T, bool kLargest>
struct Extreme {
  using Lane = Compute<T>;
  using Total = Lane;
  const T* x;
  T* y;

  __device__ Lane init() const {
    using Limits = std::numeric_limits<Lane>;
    if constexpr (is_float<T>) return kLargest ? -Limits::infinity() : Limits::infinity();
    return kLargest ? Limits::lowest() : Limits::max();
  }
  __device__ Total start() const { return init(); }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = combine(a, brim::cuda::widen(x[at]));
  }
  __device__ Total widen(const Lane& a) const { return a; }
  __device__ Total combine(const Total& a, const Total& b) const {
    const bool better = kLargest ? b > a : b < a;
    return better || b != b ? b : a;
  }
  __device__ void finish(int64_t result, const Total& t) const { y[result] = narrow<T>(t); }
};

template <class T>
struct Product {
  using Lane = Double64<T>;
  using Total = Lane;
  const T* x;
  Sum64<T>* y;

  __device__ Lane init() const { return 1; }
  __device__ Total start() const { return 1; }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = combine(a, static_cast<Lane>(brim::cuda::widen(x[at])));
  }
  __device__ Total widen(const Lane& a) const { return a; }
  __device__ Total combine(const Total& a, const Total& b) const {
    using W = formula::Wrapping<Total>;
    return static_cast<Total>(static_cast<W>(a) * static_cast<W>(b));
  }
  __device__ void finish(int64_t result, const Total& t) const {
    if constexpr (is_float<T>)
      y[result] = narrow<T>(static_cast<Compute<T>>(t));
    else
      y[result] = t;
  }
};

template <class T, bool kAll>
struct Logical {
  using Lane = bool;
  using Total = bool;
  const T* x;
  bool* y;

  __device__ Lane init() const { return kAll; }
  __device__ Total start() const { return kAll; }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t) const {
    a = combine(a, brim::cuda::widen(x[at]) != Compute<T>(0));
  }
  __device__ Total widen(const Lane& a) const { return a; }
  __device__ Total combine(const Total& a, const Total& b) const { return kAll ? a && b : a || b; }
  __device__ void finish(int64_t result, const Total& t) const { y[result] = t; }
};

int64_t elements_per_result(const Tensor& x, const Tensor& y) {
  return y.numel() ? x.numel() / y.numel() : 1;
}

template <class T>
void sum(const Context& context, const Tensor& x, Tensor& y) {
  reduce(context, Sum<T>{data<const T>(x), data<Sum64<T>>(y), 1}, ReduceShape(x, y));
}
template <class T>
void mean(const Context& context, const Tensor& x, Tensor& y) {
  const double count = static_cast<double>(elements_per_result(x, y));
  reduce(context, Sum<T>{data<const T>(x), data<T>(y), count}, ReduceShape(x, y));
}
template <class T>
void norm(const Context& context, const Tensor& x, Tensor& y) {
  reduce(context, RootOfSquares<T>{{}, data<const T>(x), data<T>(y)}, ReduceShape(x, y));
}
template <class T, bool kRoot>
void variance(const Context& context, const Tensor& x, Tensor& y, double correction) {
  const double count = static_cast<double>(elements_per_result(x, y));
  const Variance<T, kRoot> op{data<const T>(x), data<T>(y), std::max(0.0, count - correction)};
  reduce(context, op, ReduceShape(x, y));
}
template <class T, bool kLargest>
void extreme(const Context& context, const Tensor& x, Tensor& y) {
  reduce(context, Extreme<T, kLargest>{data<const T>(x), data<T>(y)}, ReduceShape(x, y));
}
template <class T>
void prod(const Context& context, const Tensor& x, Tensor& y) {
  reduce(context, Product<T>{data<const T>(x), data<Sum64<T>>(y)}, ReduceShape(x, y));
}
template <class T, bool kAll>
void logical(const Context& context, const Tensor& x, Tensor& y) {
  reduce(context, Logical<T, kAll>{data<const T>(x), data<bool>(y)}, ReduceShape(x, y));
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      constexpr DType kType = dtype_of<T>;
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("sum", cuda, kType, &sum<T>);
      backend::register_kernel("max", cuda, kType, &extreme<T, true>);
      backend::register_kernel("min", cuda, kType, &extreme<T, false>);
      backend::register_kernel("prod", cuda, kType, &prod<T>);
      backend::register_kernel("any", cuda, kType, &logical<T, false>);
      backend::register_kernel("all", cuda, kType, &logical<T, true>);
      if constexpr (is_float<T>) {
        backend::register_kernel("mean", cuda, kType, &mean<T>);
        backend::register_kernel("norm", cuda, kType, &norm<T>);
        backend::register_kernel("var", cuda, kType, &variance<T, false>);
        backend::register_kernel("stddev", cuda, kType, &variance<T, true>);
      }
    });

}  // namespace
}  // namespace brim::cuda
