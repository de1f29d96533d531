// Gradients against central differences. All outputs are weighted with fixed random numbers and
// summed, so one backward pass and two forward passes per element check every derivative.
#include <cmath>
#include <string>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

#include "core/check.h"

namespace brim::autograd {
namespace {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Numbers of either sign with a magnitude in [0.5, 1.5): none so small that it hides an error.
Tensor make_weights(const Tensor& y, Generator& generator) {
  std::vector<double> w = rand(y.shape(), {.dtype = f64}, &generator).to_vector<double>();
  for (double& v : w) v = v < 0.5 ? v + 0.5 : -v;
  return Tensor::from(w, y.shape(), y.device());
}

double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& weights) {
  double total = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!weights[k].defined()) continue;
    const std::vector<double> y = outputs[k].to_vector<double>(),
                              w = weights[k].to_vector<double>();
    for (size_t i = 0; i < y.size(); ++i) total += y[i] * w[i];
  }
  return total;
}

/// Row-major positions of element `linear`, and where it lies in memory.
Shape unravel(const Shape& shape, int64_t linear) {
  Shape at = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    at[d] = linear % shape[d];
    linear /= shape[d];
  }
  return at;
}

/// f(inputs with element `at` of input k set to value), weighted and summed.
double evaluate(const Function& f, const std::vector<Tensor>& inputs, const Tensor& x,
                const Shape& at, double value, const std::vector<Tensor>& weights) {
  int64_t offset = x.offset();
  for (int d = 0; d < at.rank(); ++d) offset += at[d] * x.strides()[d];
  {
    const NoGrad guard;
    x.alias({}, {}, offset).fill_(value);
  }
  return weighted_sum(f(inputs), weights);
}

void check_inputs(const std::vector<Tensor>& inputs) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = inputs[k];
    BRIM_CHECK(x.defined(), ValueError, "[gradcheck] input {} is undefined", k);
    if (!x.requires_grad()) continue;
    BRIM_CHECK(x.dtype() == f64, DTypeError,
               "[gradcheck] input {} is {}; finite differences need f64", k, name(x.dtype()));
    BRIM_CHECK(x.is_leaf(), AutogradError,
               "[gradcheck] input {} was made by an op; detach() it first", k);
    for (int d = 0; d < x.rank(); ++d)
      BRIM_CHECK(x.strides()[d] != 0 || x.shape()[d] == 1, ValueError,
                 "[gradcheck] input {} is expanded, so its elements share memory; clone() it", k);
  }
}

/// The gradients of the weighted sum; undefined where the outputs do not depend on an input.
std::vector<Tensor> analytic_gradients(const std::vector<Tensor>& outputs,
                                       const std::vector<Tensor>& weights,
                                       const std::vector<Tensor>& inputs, bool create_graph) {
  std::vector<Tensor> ys, ws, xs;
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k].requires_grad()) {
      ys.push_back(outputs[k]);
      ws.push_back(weights[k]);
    }
  std::vector<Tensor> all(inputs.size());
  for (const Tensor& x : inputs)
    if (x.requires_grad()) xs.push_back(x);
  if (ys.empty() || xs.empty()) return all;
  const std::vector<Tensor> g = grad(ys, xs, ws, {.create_graph = create_graph});
  for (size_t k = 0, at = 0; k < inputs.size(); ++k)
    if (inputs[k].requires_grad()) all[k] = g[at++];
  return all;
}

void check(const Function& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options,
           const char* order, Generator& generator) {
  check_inputs(inputs);
  const std::vector<Tensor> outputs = f(inputs);
  std::vector<Tensor> weights(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k)
    if (is_floating(outputs[k].dtype())) {
      BRIM_CHECK(outputs[k].dtype() == f64, DTypeError,
                 "[gradcheck] output {} is {}; finite differences need f64", k,
                 name(outputs[k].dtype()));
      weights[k] = make_weights(outputs[k], generator);
    }
  const std::vector<Tensor> gradients = analytic_gradients(outputs, weights, inputs, false);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = inputs[k];
    if (!x.requires_grad()) continue;
    const std::vector<double> values = x.to_vector<double>();
    const std::vector<double> analytic = gradients[k].defined()
                                             ? gradients[k].to_vector<double>()
                                             : std::vector<double>(values.size(), 0.0);
    for (size_t i = 0; i < values.size(); ++i) {
      const Shape at = unravel(x.shape(), static_cast<int64_t>(i));
      const double eps = options.eps * std::max(1.0, std::abs(values[i]));
      const double up = values[i] + eps, down = values[i] - eps;
      const double high = evaluate(f, inputs, x, at, up, weights);
      const double low = evaluate(f, inputs, x, at, down, weights);
      evaluate([](const std::vector<Tensor>&) { return std::vector<Tensor>(); }, inputs, x, at,
               values[i], {});
      const double numeric = (high - low) / (up - down);
      const double error = std::abs(analytic[i] - numeric);
      BRIM_CHECK(error <= options.atol + options.rtol * std::abs(numeric), AutogradError,
                 "[gradcheck] {} gradient of input {} at {}: {:.9g}, but central differences give "
                 "{:.9g}; the op's gradient is wrong, or not smooth here",
                 order, k, at.str(), analytic[i], numeric);
    }
  }
}

}  // namespace

void gradcheck(const Function& f, const std::vector<Tensor>& inputs, GradcheckOptions options) {
  const GradMode enabled(true);
  Generator generator(0x6272696d);
  check(f, inputs, options, "first", generator);
  if (!options.second_order) return;

  // The gradient as a function of the inputs and of the cotangents, differentiated in turn.
  std::vector<Tensor> extended = inputs;
  std::vector<bool> has_weight;
  for (const Tensor& y : f(inputs)) {
    has_weight.push_back(y.requires_grad());
    if (has_weight.back()) extended.push_back(make_weights(y, generator).set_requires_grad());
  }
  const size_t count = inputs.size();
  const Function gradient = [&](const std::vector<Tensor>& xs) {
    const std::vector<Tensor> own(xs.begin(), xs.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<Tensor> weights;
    for (size_t k = 0, at = count; k < has_weight.size(); ++k)
      weights.push_back(has_weight[k] ? xs[at++] : Tensor());
    std::vector<Tensor> result;
    for (Tensor& g : analytic_gradients(f(own), weights, own, true))
      if (g.defined()) result.push_back(std::move(g));
    return result;
  };
  check(gradient, extended, options, "second", generator);
}

}  // namespace brim::autograd
