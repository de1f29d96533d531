// Gradients of custom ops: a function beside the op, written with ops, so it has a gradient too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

namespace autograd {
class Node;
}

namespace extend {

/// A tensor kept for the gradient. Throws AutogradError, when read, if it was overwritten since.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& input);  ///< of one of the op's inputs
  /// Of the op's own output: kept without its history, which would be a cycle.
  static Saved output(const Tensor& y, uint32_t index = 0);
  /// The tensor, for the gradient function of `node`. Throws AutogradError if it was overwritten.
  Tensor get(const autograd::Node& node) const;

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  bool is_output_ = false;
  uint32_t index_ = 0;
};

/// What an op's gradient function sees: dy(), saved tensors, and which inputs want a gradient.
class GradCall {
 public:
  /// For autograd.
  GradCall(const autograd::Node& node, std::span<Tensor> dy, std::span<Tensor> dx)
      : node_(node), dy_(dy), dx_(dx) {}

  // Throw IndexError for an output or input that the op does not have.

  /// Gradient of output i (zeros where nothing flowed into it).
  const Tensor& dy(uint32_t i = 0);
  /// The gradient of the only output, handed over.
  Tensor take_dy() { return std::move(dy_[0]); }
  /// True when something flowed into output i.
  bool has_dy(uint32_t i) const;
  bool needs(size_t input) const;  ///< whether that input wants a gradient
  /// The gradient of that input, of its shape and dtype.
  void set(size_t input, Tensor gradient) {
    check_input(input);
    dx_[input] = std::move(gradient);
  }
  /// set(input, f()) if that input needs a gradient.
  template <class F>
  void set_if_needed(size_t input, F&& f) {
    if (needs(input)) set(input, f());
  }
  Tensor operator[](const Saved& saved) const { return saved.get(node_); }  ///< what was saved

 private:
  void check_input(size_t input) const {
    if (input >= dx_.size()) [[unlikely]]
      no_such("input", input, dx_.size());
  }
  [[noreturn]] void no_such(const char* what, size_t index, size_t count) const;

  const autograd::Node& node_;
  std::span<Tensor> dy_, dx_;
};

/// Inputs of an op, undefined ones included.
using Inputs = std::initializer_list<std::reference_wrapper<const Tensor>>;
using Gradient = std::function<void(GradCall&)>;  ///< An op's gradient function.

/// True when gradients are enabled and at least one defined input requires a gradient.
bool needs_grad(Inputs inputs);
/// Makes `gradient` the history of the outputs, whatever the inputs require.
void attach_gradient(const char* name, std::span<Tensor> outputs, Inputs inputs, Gradient gradient);

/// Returns `y`, with `gradient(GradCall&)` as its history if an input requires a gradient. It sets
/// the gradient of each input, by its place in `inputs`. Undefined inputs are allowed and need
/// none. Tensors that it uses are captured as Saved. `name` is a constant.
template <class F>
Tensor with_grad(const char* name, Tensor y, Inputs inputs, F&& gradient) {
  if (is_floating(y.dtype()) && needs_grad(inputs))
    attach_gradient(name, {&y, 1}, inputs, std::forward<F>(gradient));
  return y;
}

/// The same for an op with several outputs, floats all of them: `gradient` sees dy(i) of the i-th.
template <class F>
std::vector<Tensor> with_grad(const char* name, std::vector<Tensor> outputs, Inputs inputs,
                              F&& gradient) {
  if (needs_grad(inputs)) attach_gradient(name, outputs, inputs, std::forward<F>(gradient));
  return outputs;
}

}  // namespace extend
}  // namespace brim
