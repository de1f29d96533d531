// Kernels of fully connected layers that do the work of several ops; the passes of the compiled
// step put them in the place of those. linear's gradient takes linear_grad outside of plans, too.
#pragma once

#include <span>
#include <string>

#include "backend/kernel.h"
#include "formula/optim.h"

namespace brim::backend {

/// Multiplications and additions of a layer: those of "linear" and "linear_relu".
double linear_operations(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& y);

/// "linear" and "linear_relu": y = x W^T + b, y = relu(x W^T + b).
/// x: (N, I), weight: (O, I), bias: (O) or undefined, y: (N, O) contiguous.
using LinearKernel = Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                 const Tensor& bias, Tensor& y)>;

/// "linear_grad": dweight = dz^T x, dbias = the sum of dz's rows, dx = dz W; dz is dy, or, where y
/// is given, 0 where y <= 0 and dy elsewhere: the gradient of linear_relu. x: (N, I), weight: (O,
/// I), dy: (N, O), y: (N, O) or undefined, of any strides; dx: (N, I) or undefined, dweight: (O,
/// I), dbias: (O) or undefined, contiguous.
using LinearGradKernel =
    Kernel<void(const Context&, const Tensor& x, const Tensor& weight, const Tensor& dy,
                const Tensor& y, Tensor& dx, Tensor& dweight, Tensor& dbias)>;

/// What linear_grad has to do, for is_fast().
struct LinearSize {
  int64_t rows, inputs, outputs;
};

/// Whether CUDA's kernels for few rows (few_rows.cuh) are the ones to take: no more than 64 rows,
/// and 4 million multiply-adds, which take a GPU about as long as launching two kernels.
bool few_rows_are_fast(int64_t rows, int64_t inputs, int64_t outputs);

/// "linear_grad_sgd", "linear_grad_adam", ... ("linear_grad_" and the name of one of
/// formula::OptimFormulas): as above, but dweight and dbias are used at once to update weight and
/// bias, and not kept; dx is that of the weight before the update. Weight and bias (which may be
/// undefined) are contiguous, as are `states`: the formula's states of the weight, then those of
/// the bias.
using LinearStepKernel = Kernel<void(const Context&, const Tensor& x, Tensor& weight, Tensor& bias,
                                     const Tensor& dy, const Tensor& y, Tensor& dx,
                                     std::span<Tensor> states, const formula::StepParams& params)>;

/// The kernel's name for the optimizer F; lives as long as the process.
template <class F>
const char* linear_step_name() {
  static const auto& name = *new std::string(std::string("linear_grad_") + F::kName);
  return name.c_str();
}

}  // namespace brim::backend
