// maximum and minimum of two tensors; equal elements share the gradient
#include <brim/ops/binary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

Tensor extremum(const char* op, const ops::BinaryKernel& kernel, const ops::BinaryKernel& share,
                const Tensor& a, const Tensor& b) {
  return autograd::with_grad(
      op, ops::binary(kernel, op, a, b), {a, b},
      [&share, a = autograd::Saved(a), b = autograd::Saved(b)](autograd::GradCall& g) {
        const Tensor ta = g[a].detach(), tb = g[b].detach();
        g.set_if_needed(0, [&] {
          const Tensor part = ops::binary(share, share.name(), ta, tb);
          return ops::sum_to(mul(g.dy(), part), ta.shape());
        });
        g.set_if_needed(1, [&] {
          const Tensor part = ops::binary(share, share.name(), tb, ta);
          return ops::sum_to(mul(g.dy(), part), tb.shape());
        });
      });
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return maximum(t...); }, a, b);
  static const ops::BinaryKernel kernel("maximum"), share("maximum_share");
  return extremum("maximum", kernel, share, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return minimum(t...); }, a, b);
  static const ops::BinaryKernel kernel("minimum"), share("minimum_share");
  return extremum("minimum", kernel, share, a, b);
}

}  // namespace brim
