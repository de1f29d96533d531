// Switches and functions of automatic differentiation. Tensor::backward starts most of it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// True when ops record gradients in this thread (the default).
bool grad_enabled();

/// Switches gradients on or off in this thread until the guard's end.
class GradMode {
 public:
  explicit GradMode(bool enabled);  ///< until the end of the scope, on this thread
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// `NoGrad guard;` — ops record nothing in this scope.
struct NoGrad : GradMode {
  /// Switches gradients off, until the end of the scope and on this thread.
  NoGrad() : GradMode(false) {}
};

/// In this scope every op checks its outputs: the first NaN throws AutogradError naming the op, and
/// for a gradient the forward op it belongs to. Slow; for finding bugs.
class AnomalyMode {
 public:
  AnomalyMode();  ///< Switches the mode on, until the end of the scope and on this thread.
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool previous_;
};

namespace autograd {

/// Gradients of the sum of `outputs` (each weighted by its entry of `grad_outputs`, or 1 where a
/// single element) with respect to `inputs`, without touching any .grad(). An input that the
/// outputs do not depend on gets an undefined tensor.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, BackwardOptions options = {});

/// Options of gradcheck.
struct GradcheckOptions {
  double eps = 1e-6;          ///< half the distance between the two points of a central difference
  double atol = 1e-6;         ///< absolute error that is allowed
  double rtol = 1e-4;         ///< relative error that is allowed
  bool second_order = false;  ///< also check the gradient of the gradient
};

/// Compares the gradients of `f` at `inputs` (f64, requiring gradients) with central differences.
/// Throws AutogradError naming the input, element and both values at the first mismatch.
void gradcheck(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, GradcheckOptions options = {});

}  // namespace autograd
}  // namespace brim
