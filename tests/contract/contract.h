// The contract of every op: one case per op, run on every backend against a plain f64 reference,
// for every dtype, contiguous and not, with gradients of first and second order.
//
//   CONTRACT(relu) {
//     return {.op = relu,
//             .inputs = unary_shapes(-2, 2),
//             .reference = each([](double x) { return x > 0 ? x : 0; })};
//   }
//   CONTRACT(sum_axis) {
//     return {.op = [](Tensor x) { return sum(x, {1}); },
//             .inputs = {{{.shape = {3, 5, 2}}}, {{.shape = {3, 0, 2}}}},   // two situations
//             .reference = [](Tensor x) {            // x: f64, contiguous, on the CPU
//               std::vector<double> v = values(x), y(6); ...
//               return array(y, {3, 2});
//             }};
//   }
//
// Functions take one Tensor per input, or `const Tensors&`, and return a Tensor or Tensors. A
// reference may also be composed of other ops; it gets the same numbers as the op. Where it returns
// f64 the op must return the case's dtype, else (bool, i64) exactly the reference's dtype.
// Put cases into tests/contract/<family>_test.cpp; run one with --gtest_filter=Contract.relu.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::contract {

using Tensors = std::vector<Tensor>;

/// A function from inputs to outputs, made of anything callable with tensors.
class Function {
 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Function>) Function(F f) {
    call_ = [f](const Tensors& x) -> Tensors { return list(apply(f, x)); };
  }
  explicit operator bool() const { return static_cast<bool>(call_); }
  Tensors operator()(const Tensors& inputs) const { return call_(inputs); }

 private:
  static Tensors list(Tensor y) { return {std::move(y)}; }
  static Tensors list(Tensors y) { return y; }
  template <class F>
  static auto apply(const F& f, const Tensors& x) {
    using T = const Tensor&;
    if constexpr (std::is_invocable_v<F, const Tensors&>)
      return f(x);
    else if constexpr (std::is_invocable_v<F, T>)
      return f(x.at(0));
    else if constexpr (std::is_invocable_v<F, T, T>)
      return f(x.at(0), x.at(1));
    else if constexpr (std::is_invocable_v<F, T, T, T>)
      return f(x.at(0), x.at(1), x.at(2));
    else if constexpr (std::is_invocable_v<F, T, T, T, T>)
      return f(x.at(0), x.at(1), x.at(2), x.at(3));
    else
      return f(x.at(0), x.at(1), x.at(2), x.at(3), x.at(4));
  }
  std::function<Tensors(const Tensors&)> call_;
};

/// How one input is made: distinct numbers, evenly spaced in [low, high) and shuffled, never 0
/// where the range is symmetric, never equal to those of another input of the same size.
struct Input {
  Shape shape;
  double low = -2, high = 2;
  std::optional<DType> dtype = {};  ///< fixed, e.g. i64 for indices (whole numbers); no gradient
  bool gradient = true;             ///< false: not differentiated
};

inline const std::vector<DType> kFloats = {f32, f64, f16, bf16};
inline const std::vector<DType> kSigned = {f32, f64, f16, bf16, i64, i32, i8};
inline const std::vector<DType> kNumbers = {f32, f64, f16, bf16, i64, i32, i8, u8};

struct Case {
  Function op;
  std::vector<std::vector<Input>> inputs;  ///< situations: the inputs of one call each
  Function reference;
  std::vector<DType> dtypes = kFloats;
  double tolerance = 1e-5;         ///< in f32: |y - r| <= tolerance * (1 + |r|)
  double tolerance_f64 = 1e-12;    ///< in f64
  double tolerance_f16 = 2e-3;     ///< two units in the last place; at least `tolerance`
  double tolerance_bf16 = 1.6e-2;  ///< the same
  bool gradient = true;      ///< check them: finite differences in f64, the others against f64
  bool second_order = true;  ///< and the gradient's gradient
  bool views = true;         ///< also with transposed and sliced inputs
  bool expanded = true;      ///< also with inputs that are expanded along their first axis
};

/// Runs a case; failures are reported through gtest.
void run(const Case& c);

#define CONTRACT(name)                                                    \
  static ::brim::contract::Case contract_case_##name();                   \
  TEST(Contract, name) { ::brim::contract::run(contract_case_##name()); } \
  static ::brim::contract::Case contract_case_##name()

/// Elements in row-major order, as f64.
std::vector<double> values(const Tensor& x);
/// An f64 tensor (or of `dtype`) of these elements.
Tensor array(const std::vector<double>& values, const Shape& shape, DType dtype = f64);

/// Odd, large enough for every vector tail, rank 0 and empty shapes of one input.
std::vector<std::vector<Input>> unary_shapes(double low = -2, double high = 2);
/// The same for two inputs: equal shapes and every kind of broadcasting. `b` lies in
/// [b_low, b_high).
std::vector<std::vector<Input>> binary_shapes(double low, double high, double b_low, double b_high);
inline std::vector<std::vector<Input>> binary_shapes(double low = -2, double high = 2) {
  return binary_shapes(low, high, low, high);
}

/// References that apply f to each element; the second form broadcasts (NumPy's rule).
Function each(std::function<double(double)> f, DType dtype = f64);
Function each2(std::function<double(double, double)> f, DType dtype = f64);

/// The sum and the largest of a list; 0 and -infinity where it is empty.
double total(const std::vector<double>& v);
double largest(const std::vector<double>& v);

}  // namespace brim::contract
