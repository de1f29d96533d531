// What the ops of the sweep are made of: operands by layout, and steps forward or with gradients.
#pragma once

#include <brim/ops/reduce.h>
#include <brim/ops/sort.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/command/sweep/ops.h"

namespace brim::command {

inline const std::vector<std::string> kLayouts = {"dense", "transposed", "strided"};
inline const std::vector<DType> kF32 = {f32};
inline const std::vector<DType> kFloats = {f32, bf16, f16};

enum class Values : uint8_t {
  normal,    ///< standard normal
  positive,  ///< in [0.05, 1.05)
  near_one,  ///< within 1 +- 0.0005: a product of many stays finite
};

/// Random numbers; of integers 0 to 99, of bool either.
Tensor values(const Shape& shape, DType dtype, Values kind = Values::normal);

/// The shape of about so many elements in a layout: (n) "dense", "strided" and "all", (r, c)
/// "transposed", (n / W, W) "rows-W", "row-W", "columns" and "column", (N, C, H, W) where it ends
/// in "nchw" or "nhwc".
Shape operand_shape(const std::string& layout, int64_t elements);
/// Square pictures of at most 32 x 32.
Shape image_shape(int64_t elements, int64_t channels);
/// 64 channels; 16 in small tensors.
int64_t channels_for(int64_t elements);
bool is_nhwc(const std::string& layout);

/// Random numbers in the layout of the case: every second one of twice as many where it is
/// "strided", column by column where it is "transposed".
Tensor operand(const SweepCase& c, Values kind = Values::normal);
/// `x` in the memory format that the layout names.
Tensor in_format(const Tensor& x, const std::string& layout);

/// The same i64 in [0, bound) here and in PyTorch, in no order: for results whose size they decide.
Tensor hashed(const Shape& shape, int64_t bound);

inline std::vector<Tensor> listed(const Tensor& x) { return {x}; }
inline std::vector<Tensor> listed(const Extremum& x) { return {x.values, x.indices}; }
inline std::vector<Tensor> listed(const Sorted& x) { return {x.values, x.indices}; }
inline std::vector<Tensor> listed(const Unique& x) { return {x.values, x.inverse, x.counts}; }

/// `f` of `inputs` again and again.
template <class F, class... Inputs>
SweepRun forward(F f, Inputs... inputs) {
  const auto call = [f, inputs...] { return f(inputs...); };
  return {.step = [call] { call(); }, .results = [call] { return listed(call()); }};
}

/// A dense tensor that wants a gradient.
inline Tensor leaf(const Shape& shape, DType dtype, Values kind = Values::normal) {
  return values(shape, dtype, kind).set_requires_grad();
}

/// The gradients of `f(inputs...)`, those of before forgotten, with respect to the inputs that want
/// one.
template <class F, class... Inputs>
SweepRun training(F f, Inputs... inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : {inputs...})
    if (x.requires_grad()) leaves.push_back(x);
  const Tensor y = f(inputs...);
  const Tensor gradient = y.rank() == 0 ? Tensor() : values(y.shape(), y.dtype());
  const auto call = [f, leaves, gradient, inputs...] {
    for (Tensor x : leaves) x.zero_grad();
    const Tensor result = f(inputs...);
    result.backward(gradient);
    return result;
  };
  return {.step = [call] { call(); },
          .results =
              [call, leaves] {
                std::vector<Tensor> all = {call()};
                for (const Tensor& x : leaves) all.push_back(x.grad());
                return all;
              }};
}

/// Makes a case, or its training.
using MakeEither = std::function<SweepRun(const SweepCase&, bool trains)>;

/// training(), or forward() without gradients.
template <class F, class... Inputs>
SweepRun run_either(bool trains, F f, Inputs... inputs) {
  return trains ? training(f, inputs...) : forward(f, inputs.detach()...);
}

/// An op, and its training as NAME-train.
void add_with_training(std::vector<SweepOp>& ops, const std::string& name, const char* family,
                       const std::vector<std::string>& layouts, const MakeEither& make);

}  // namespace brim::command
