// What normalisation with ReLU stands for in plans.
#include "backend/fused/fused_norm.h"

#include <brim/formula/formula.h>

#include "backend/fused/mask_bits.h"
#include "backend/rewrite.h"
#include "core/same_elements.h"

namespace brim::backend {
namespace fused_norm {
namespace {

const BatchNormRelu kernel("batch_norm_relu",
                           {.operands = "x, weight, bias, fixed_mean, fixed_var, residual, rw "
                                        "running_mean, rw running_var, y, mean, scale",
                            .activations = "x, residual, y"});
const BatchNormReluGrad grad_kernel(
    "batch_norm_relu_grad",
    {.operands = "dy, x, weight, bias, mean, scale, y, dx, dweight, dbias, dresidual",
     .activations = "dy, x, y, dx, dresidual"});
[[maybe_unused]] const bool masked = register_mask_operand("batch_norm_relu_grad", "y");
const BatchNormAgain again_kernel("batch_norm_again",
                                  {.operands = "x, weight, bias, mean, scale, residual, y"});

/// Both are of one shape, order and dtype.
bool alike(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.strides() == b.strides() && a.dtype() == b.dtype();
}

bool pays(const Match& m) {
  const Tensor &n = m["n"], &residual = m["residual"];
  if (!alike(m["y"], n)) return false;
  if (!residual.defined()) return true;
  return m.option<formula::Params>("add").a == 1 && alike(residual, n) && alike(m["s"], n);
}

Launches build(Match& m) {
  Tensor running_mean = m.target("running_mean"), running_var = m.target("running_var"),
         y = m.target("y"), mean = m.target("mean"), scale = m.target("scale");
  return one(kernel.launch(m.device(), m.dtype(), m["x"], m["weight"], m["bias"], m["fixed_mean"],
                           m["fixed_var"], m["residual"], running_mean, running_var, y, mean, scale,
                           m.option<BatchNormParams>("batch_norm")));
}

/// The gradient can find the ReLU's mask in the normalised x, instead of in its result: that was
/// made without a residual, and neither it nor what it was made of has been written since.
bool mask_is_in_x(const Match& m) {
  const Launch& norm = *m.find("norm");
  if (norm.name() != std::string_view("batch_norm_relu") || norm.operand("residual").defined() ||
      !same_view(norm.operand("y"), m["y"]))
    return false;
  for (const char* name : {"x", "weight", "mean", "scale"}) {
    const Tensor &a = norm.operand(name), &b = m[name];
    if (a.defined() != b.defined() || (a.defined() && !same_view(a, b))) return false;
  }
  for (const char* name : {"x", "weight", "bias", "y", "mean", "scale"})
    if (!m.unchanged_since("norm", name)) return false;
  return true;
}

Launches build_grad(Match& m) {
  Tensor dx = m.target("dx"), dweight = m.target("dweight"), dbias = m.target("dbias"),
         dresidual = m.seen_by_others("masked") ? m["masked"] : Tensor();
  return one(grad_kernel.launch(m.device(), m.dtype(), m["dy"], m["x"], m["weight"], m["bias"],
                                m["mean"], m["scale"], mask_is_in_x(m) ? Tensor() : m["y"], dx,
                                dweight, dbias, dresidual, m.option<bool>("batch_norm_grad")));
}

const std::string norm = R"(
  batch_norm(x, weight, bias, fixed_mean, fixed_var, running_mean, running_var, y: n, mean, scale)
)";
const bool registered = register_rewrite(
    {.name = "batch_norm_relu",
     .what = "batch norm, addition of a residual and ReLU in one launch",
     .patterns = {norm + "add(a: n, b: residual, y: s) \n relu(x: s, y)",
                  norm + "add(a: residual, b: n, y: s) \n relu(x: s, y)", norm + "relu(x: n, y)"},
     .kernels = {"batch_norm_relu"},
     .pays = pays,
     .build = build});
const bool registered_grad = register_rewrite(
    {.name = "batch_norm_relu_grad",
     .what = "the gradients of ReLU and batch norm in one launch",
     .patterns = {R"(
       relu_grad(dy, s: y, dx: masked)
       batch_norm_grad(dy: masked, x, weight, mean, scale, dx, dweight, dbias)
       @norm = batch_norm|batch_norm_relu(bias, scale)
     )"},
     .kernels = {"batch_norm_relu_grad", "batch_norm_relu"},
     .pays =
         [](const Match& m) {
           const Tensor& masked = m["masked"];
           return alike(m["dy"], masked) && alike(m["y"], masked) && alike(m["x"], masked);
         },
     .build = build_grad});

}  // namespace
}  // namespace fused_norm
}  // namespace brim::backend
