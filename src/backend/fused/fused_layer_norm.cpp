// What the gradient of layer_norm with that of the residual beside it stands for in plans.
#include <brim/formula/formula.h>

#include "backend/kernel.h"
#include "backend/rewrite.h"

namespace brim::backend {
namespace fused_layer_norm {
namespace {

/// "layer_norm_grad_add": as layer_norm_grad, and dx gets `residual` added. dx may be the residual,
/// dy, or x.
const Kernel<void(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                  const Tensor& mean, const Tensor& scale, const Tensor& residual, Tensor& dx,
                  Tensor& dweight, Tensor& dbias)>
    kernel("layer_norm_grad_add",
           {.operands = "dy, x, weight, mean, scale, residual, dx, dweight, dbias"});

bool pays(const Match& m) {
  const Tensor &dx = m["dx"], &residual = m["residual"], &sum = m["sum"];
  return m.option<formula::Params>("add").a == 1 && dx.is_contiguous() && sum.is_contiguous() &&
         residual.is_contiguous() && residual.shape() == sum.shape() && dx.numel() == sum.numel() &&
         residual.dtype() == dx.dtype() && sum.dtype() == dx.dtype();
}

Launches build(Match& m) {
  Tensor sum = m.target("sum"), dweight = m.target("dweight"), dbias = m.target("dbias");
  return one(kernel.launch(m.device(), m.dtype(), m["dy"], m["x"], m["weight"], m["mean"],
                           m["scale"], m["residual"], sum, dweight, dbias));
}

const bool registered = register_rewrite(
    {.name = "layer_norm_grad_add",
     .what = "the gradient of layer norm with the addition of the residual's in one launch",
     .patterns = {R"(
       layer_norm_grad(dy, x, weight, mean, scale, dx, dweight, dbias)
       add(a: residual, b: dx, y: sum)
     )",
                  R"(
       layer_norm_grad(dy, x, weight, mean, scale, dx, dweight, dbias)
       add(a: dx, b: residual, y: sum)
     )"},
     .in_place = true,
     .kernels = {"layer_norm_grad_add"},
     .pays = pays,
     .build = build});

}  // namespace
}  // namespace fused_layer_norm
}  // namespace brim::backend
