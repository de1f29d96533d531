// cross_entropy and its gradient, where the loss is what backward() starts from, become one launch.
#include <fmt/core.h>

#include "backend/fused_loss.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || same_view(a, b));
}

/// True if launch `index` fills `t` with ones, and no other writes it.
bool ones(const Program& program, const Uses& uses, const Tensor& t, int& index) {
  index = uses.writer(t);
  if (index < 0 || !program.temporary(t)) return false;
  const Launch& launch = *program.launches[static_cast<size_t>(index)];
  return is(launch, "fill") && *launch.option<double>() == 1 && covers_storage(launch.operand(0));
}

/// True if the gradient `g` belongs to the loss `l`, and can be computed with it.
bool belongs(const Uses& uses, const Launch& loss, int l, const Launch& grad, int g) {
  if (!is(grad, "cross_entropy_grad") || grad.dtype() != loss.dtype() ||
      *grad.option<backend::ClassLoss>() != *loss.option<backend::ClassLoss>())
    return false;
  for (const int i : {0, 1, 2}) {  // x, target and weight
    const Tensor& t = loss.operand(static_cast<size_t>(i));
    if (!same(t, grad.operand(static_cast<size_t>(i) + 1))) return false;
    if (t.defined())
      for (const int w : uses.writers(t))
        if (w > l && w < g) return false;
  }
  const Tensor& dx = grad.operand(5);
  return uses.writer(dx) == g && (uses.readers(dx).empty() || uses.readers(dx).front() > g);
}

bool fuse_one(Program& program) {
  static const backend::FusedLossKernel kernel("softmax_cross_entropy");
  const Uses uses(program);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& loss = *program.launches[i];
    if (!is(loss, "cross_entropy") ||
        !backend::has_kernel(kernel.name(), loss.device(), loss.dtype()))
      continue;
    const Tensor& stats = loss.operand(4);
    const int g = uses.reader(stats);
    if (!program.temporary(stats) || g < 0 || uses.writer(stats) != static_cast<int>(i)) continue;
    const Launch& grad = *program.launches[static_cast<size_t>(g)];
    int filled = -1;
    if (!belongs(uses, loss, static_cast<int>(i), grad, g) ||
        !ones(program, uses, grad.operand(0), filled) || filled > g)
      continue;
    const bool only_here = uses.reader(grad.operand(0)) == g;
    Tensor value = loss.operand(3), dx = grad.operand(5);
    program.launches[i] =
        kernel.launch(loss.device(), loss.dtype(), loss.operand(0), loss.operand(1),
                      loss.operand(2), value, dx, *loss.option<backend::ClassLoss>());
    program.launches[static_cast<size_t>(g)] = nullptr;
    if (only_here) program.launches[static_cast<size_t>(filled)] = nullptr;
    program.compact();
    return true;
  }
  return false;
}

}  // namespace

std::string fuse_loss(Program& program) {
  int count = 0;
  while (fuse_one(program)) ++count;
  return count ? fmt::format("{} losses with their gradients", count) : "";
}

}  // namespace brim::plan
