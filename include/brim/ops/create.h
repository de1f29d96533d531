// New tensors: constants, ranges, random numbers. Random ones draw from `generator`, or from
// Generator::global() when it is null; element i depends only on the generator's state and on i.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include <brim/core/random.h>
#include <brim/core/tensor.h>

namespace brim {

///@{
/// A tensor of `value`, of zeros, of ones, or uninitialised. Throws OutOfMemory.
Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
Tensor empty(const Shape& shape, const TensorOptions& options = {});
///@}
///@{
/// Shape, dtype and device of `x`; contiguous, no gradient.
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
///@}

template <class T>
concept Number = std::is_arithmetic_v<T>;  ///< Numbers of C++.

/// Options of creators that have a dtype of their own: arange, randint, randperm.
struct RangeOptions {
  std::optional<DType> dtype = {};   ///< of its elements; unless given, the creator's own
  Device device = default_device();  ///< where it lives
  bool requires_grad = false;        ///< a leaf of floating dtype whose gradient is wanted
};

/// What arange, randint and randperm take: braces are RangeOptions.
template <class O>
concept CreatorOptions = std::same_as<O, RangeOptions> || std::same_as<O, TensorOptions>;

namespace detail {
Tensor arange(double start, double end, double step, const TensorOptions& options);
Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options,
               Generator* generator);
Tensor randperm(int64_t n, const TensorOptions& options, Generator* generator);

inline const TensorOptions& with_dtype(const TensorOptions& o, DType) { return o; }
inline TensorOptions with_dtype(const RangeOptions& o, DType unless_given) {
  return {.dtype = o.dtype.value_or(unless_given),
          .device = o.device,
          .requires_grad = o.requires_grad};
}
}  // namespace detail
/// start, start + step, ... below end (above it for a negative step): i64 from whole arguments,
/// else f32, unless options say so. Throws ValueError when the step is 0 or leads away from the
/// end.
template <Number A, Number B, Number C = int, CreatorOptions O = RangeOptions>
Tensor arange(A start, B end, C step = 1, const O& options = {}) {
  constexpr DType own = std::is_integral_v<decltype(A() + B() + C())> ? DType::i64 : DType::f32;
  return detail::arange(static_cast<double>(start), static_cast<double>(end),
                        static_cast<double>(step), detail::with_dtype(options, own));
}
/// 0, 1, ... below end.
template <Number A, CreatorOptions O = RangeOptions>
Tensor arange(A end, const O& options = {}) {
  constexpr DType own = std::is_integral_v<A> ? DType::i64 : DType::f32;
  return detail::arange(0, static_cast<double>(end), 1, detail::with_dtype(options, own));
}
/// `steps` evenly spaced numbers from start to end, both included.
Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options = {});
/// Ones on the diagonal of (n, m); m = -1 means n.
Tensor eye(int64_t n, int64_t m = -1, const TensorOptions& options = {});

/// Uniform numbers in [0, 1).
Tensor rand(const Shape& shape, const TensorOptions& options = {}, Generator* generator = nullptr);
/// Normal numbers with mean 0 and standard deviation 1.
Tensor randn(const Shape& shape, const TensorOptions& options = {}, Generator* generator = nullptr);
///@{
/// The same with shape, dtype and device of `x`; contiguous, no gradient.
Tensor rand_like(const Tensor& x, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, Generator* generator = nullptr);
///@}
/// Whole numbers in [low, high), i64 or of any other dtype that options give. Throws ValueError
/// when the range is empty, or beyond the dtype's.
template <CreatorOptions O = RangeOptions>
Tensor randint(int64_t low, int64_t high, const Shape& shape, const O& options = {},
               Generator* generator = nullptr) {
  return detail::randint(low, high, shape, detail::with_dtype(options, DType::i64), generator);
}
/// A permutation of 0 .. n-1, i64, or i32 where options say so.
template <CreatorOptions O = RangeOptions>
Tensor randperm(int64_t n, const O& options = {}, Generator* generator = nullptr) {
  return detail::randperm(n, detail::with_dtype(options, DType::i64), generator);
}
/// 1 with probability p[i], else 0; shape and dtype of `p`, no gradient. Throws ValueError outside
/// of [0, 1].
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

/// `samples` categories drawn by their weights: (M) -> (samples), (N, M) -> (N, samples), i64.
/// weights: 0 or more, not all 0 in a row; they need not add up to 1. Without `replacement` no
/// category is drawn twice in a row, so as many must have a weight. Throws ValueError; what lies in
/// the weights is only looked at on the CPU.
Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement = false,
                   Generator* generator = nullptr);

}  // namespace brim
