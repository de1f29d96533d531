// Reductions of floating dtypes on the CPU, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/reduce/reduce_steps-inl.h"
#include "backend/cpu/runtime/isa.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

int64_t elements_per_result(const Tensor& x, const Tensor& y) {
  return y.numel() ? x.numel() / y.numel() : 1;
}

// Elements of type T are stored as such, or as 16-bit floats.

template <class T, class Stored>
void mean(const Context& context, const Tensor& x, Tensor& y) {
  const double count = static_cast<double>(elements_per_result(x, y));
  reduce(kSteps<Sum<T>, Stored>, context, x, y, count);
}

/// Of each result, its first element.
template <class T, class Stored>
void first_elements(const Tensor& x, const Tensor& y, double* to) {
  const ReducePlan plan = ReducePlan::make(x, y);
  ReduceDims::Walk result;
  for (int64_t i = 0; i < plan.kept.numel; ++i, result.next(plan.kept, 0))
    to[i] = static_cast<T>(static_cast<const Stored*>(x.raw())[result.offset]);
}

template <class T, class Stored>
void norm(const Context& context, const Tensor& x, Tensor& y) {
  reduce(kSteps<Squares<T>, Stored>, context, x, y, -1);
}

/// Two passes: distances to the first element, which give the means in f64, then to those. So equal
/// elements have a variance of 0, whatever their mean rounds to otherwise.
template <class T, class Stored, bool kRoot>
void variance(const Context& context, const Tensor& x, Tensor& y, double correction) {
  const double count = static_cast<double>(elements_per_result(x, y));
  const double divisor = std::max(0.0, count - correction);
  const size_t results = static_cast<size_t>(y.numel());
  const Workspace workspace = context.workspace(2 * results * sizeof(double));
  double *const first = workspace.as<double>(), *const means = first + results;
  std::fill_n(first, x.numel() > 0 ? 0 : results, 0.0);
  if (x.numel() > 0) first_elements<T, Stored>(x, y, first);
  reduce_to(means, kSteps<Distances<T>, Stored>, context, x, y, first, count);
  for (size_t i = 0; i < results; ++i) means[i] += first[i];
  reduce_to(y.raw(), kSteps<Squares<T>, Stored>, context, x, y, means, kRoot ? -divisor : divisor);
}

template <class T, class Stored = T>
void register_floating() {
  register_ordered<T, Stored>();
  add<Stored>("prod", &plain<Prod<T>, Stored>);
  add<Stored>("mean", &mean<T, Stored>);
  add<Stored>("norm", &norm<T, Stored>);
  constexpr DType kDType = dtype_of<Stored>;
  backend::register_kernel("var", DeviceKind::cpu, kDType, &variance<T, Stored, false>);
  backend::register_kernel("stddev", DeviceKind::cpu, kDType, &variance<T, Stored, true>);
}

void register_reduce() {
  register_floating<float>();
  register_floating<double>();
  register_floating<float, Half>();
  register_floating<float, BFloat16>();
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_reduce);
#endif
