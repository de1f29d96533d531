// What the loss with its gradient stands for in plans.
#include "backend/fused/fused_loss.h"

#include "backend/rewrite.h"

namespace brim::backend {
namespace fused_loss {
namespace {

const FusedLossKernel kernel("softmax_cross_entropy", {.operands = "x, target, weight, loss, dx"});

const bool registered = register_rewrite(
    {.name = "softmax_cross_entropy",
     .what = "cross entropy, from which backward() starts, with its gradient in one launch",
     .ulp = 2,  // the gradient comes from the softmax itself, not from its logarithm
     .patterns = {R"(
       @fill(y: ones)
       cross_entropy(x, target, weight, loss, stats)
       cross_entropy_grad(dy: ones, x, target, weight, stats, dx)
     )"},
     .kernels = {"softmax_cross_entropy"},
     .pays =
         [](const Match& m) {
           return m.option<double>("fill") == 1 &&
                  m.option<ClassLoss>("cross_entropy") == m.option<ClassLoss>("cross_entropy_grad");
         },
     .build =
         [](Match& m) {
           Tensor loss = m.target("loss"), dx = m.target("dx");
           return one(kernel.launch(m.device(), m.dtype(), m["x"], m["target"], m["weight"], loss,
                                    dx, m.option<ClassLoss>("cross_entropy")));
         }});

}  // namespace
}  // namespace fused_loss
}  // namespace brim::backend
