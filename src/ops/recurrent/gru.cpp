// gru: one kernel each way for all steps where the device has one, else ops step by step
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/recurrent.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/recurrent/recurrent.h"

namespace brim {
namespace {

using ops::StepGradients;
using ops::StepOrder;

/// What the steps leave behind, by ops, in their order. inner: what the hidden state gives n.
struct GruSteps {
  std::vector<Tensor> r, z, inner, n, h;

  GruSteps(const StepOrder& order, const Tensor& gates, const Tensor& weight, const Tensor& bias,
           Tensor state) {
    for (const Tensor& x : order.parts(gates)) {
      const std::vector<Tensor> g = chunk(x, 3, 1), u = chunk(linear(state, weight, bias), 3, 1);
      r.push_back(sigmoid(g[0] + u[0]));
      z.push_back(sigmoid(g[1] + u[1]));
      inner.push_back(u[2]);
      n.push_back(tanh(g[2] + r.back() * u[2]));
      h.push_back(state = n.back() + z.back() * (state - n.back()));
    }
  }
};

}  // namespace

StepGradients ops::composed_gru_grad(const StepOrder& order, const Tensor& dy, const Tensor& gates,
                                     const Tensor& narrow_weight, const Tensor& bias,
                                     const Tensor& h) {
  const DType dtype = gates.dtype(), wide = ops::statistics_dtype(dtype);
  const Tensor weight = narrow_weight.to(wide), state = h.to(wide);
  const GruSteps s(order, gates.to(wide), weight, bias.defined() ? bias.to(wide) : bias, state);
  const std::vector<Tensor> up = order.parts(dy.to(wide));
  std::vector<Tensor> dx(up.size()), dgates(up.size());
  Tensor dh = zeros_like(state);
  for (size_t t = up.size(); t-- > 0;) {
    const Tensor &r = s.r[t], &z = s.z[t], &n = s.n[t];
    dh = dh + up[t];
    const Tensor dn = dh * (1 - z) * (1 - square(n));
    const Tensor dz = dh * ((t == 0 ? state : s.h[t - 1]) - n) * z * (1 - z);
    const Tensor dr = dn * s.inner[t] * r * (1 - r);
    dx[t] = cat({dr, dz, dn}, 1);
    dgates[t] = cat({dr, dz, dn * r}, 1);
    dh = dh * z + matmul(dgates[t], weight);
  }
  const Tensor all = order.joined(dgates);
  return {order.joined(dx).to(dtype),
          dh.to(dtype),
          {},
          [order, all, state, dtype, states = s.h] {
            return ops::recurrent_weight_grad(order, all, state, order.joined(states)).to(dtype);
          },
          [all, dtype] {
            return sum(all, {0, 1}).to(dtype);
          }};
}

namespace {

/// `saved`: r, z, what the hidden state gives n, and n, (T, N, 4 H).
StepGradients fused_gru_grad(const StepOrder& order, const Tensor& dy, const Tensor& weight,
                             const Tensor& h, const Tensor& y, const Tensor& saved) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& weight,
                                    const Tensor& h, const Tensor& y, const Tensor& saved,
                                    Tensor& dx, Tensor& dgates, Tensor& dh, bool reverse)>
      kernel("gru_grad", {.operands = "dy, weight, h, y, saved, dx, dgates, dh"},
             [](const Tensor& up, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const Tensor&, const Tensor&,
                const bool&) { return ops::recurrent_operations(up, 3); });
  const DType dtype = dy.dtype();
  const Device device = dy.device();
  const Shape shape = order.shape(3 * order.hidden);
  StepGradients d;
  d.gates = Tensor::empty(shape, dtype, device);
  d.h = Tensor::empty(h.shape(), dtype, device);
  Tensor dgates = Tensor::empty(shape, dtype, device);
  kernel(device, dtype, dy.contiguous(), weight, h.contiguous(), y, saved, d.gates, dgates, d.h,
         order.reverse);
  d.weight = [order, dgates, h, y] { return ops::recurrent_weight_grad(order, dgates, h, y); };
  d.bias = [dgates] { return sum(dgates, {0, 1}); };
  return d;
}

}  // namespace

Tensor gru(const Tensor& gates, const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& h,
           const RecurrentSteps& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return gru(t..., options); }, gates, weight_hh,
                        bias_hh, h);
  static const backend::Kernel<void(const Context&, const Tensor& gates, const Tensor& weight,
                                    const Tensor& bias, const Tensor& h, Tensor& y, Tensor& saved,
                                    bool reverse)>
      kernel("gru", {.operands = "gates, weight, bias, h, y, saved"},
             [](const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& states,
                const Tensor&, const bool&) { return ops::recurrent_operations(states, 3); });
  const StepOrder order =
      ops::check_steps("gru", 3, gates, weight_hh, bias_hh, {h}, options.reverse);
  const DType dtype = gates.dtype();
  const Device device = gates.device();
  if (!kernel.exists(device, dtype))
    return order.joined(GruSteps(order, gates, weight_hh, bias_hh, h).h);
  Tensor y = Tensor::empty(order.shape(order.hidden), dtype, device), saved;
  if (autograd::needs_grad({gates, weight_hh, bias_hh, h}))
    saved = Tensor::empty(order.shape(4 * order.hidden), dtype, device);
  kernel(device, dtype, gates.detach().contiguous(), weight_hh.detach(),
         bias_hh.defined() ? bias_hh.detach().contiguous() : bias_hh, h.detach().contiguous(), y,
         saved, order.reverse);
  return autograd::with_grad(
      "gru", y, {gates, weight_hh, bias_hh, h},
      [order, gates = autograd::Saved(gates), weight = autograd::Saved(weight_hh),
       bias = autograd::Saved(bias_hh), h = autograd::Saved(h), y = autograd::Saved::output(y),
       saved](autograd::GradCall& call) {
        const StepGradients d =
            grad_enabled()
                ? ops::composed_gru_grad(order, call.dy(), call[gates], call[weight], call[bias],
                                         call[h])
                : fused_gru_grad(order, call.dy(), call[weight], call[h], call[y], saved);
        call.set_if_needed(0, [&] { return d.gates; });
        call.set_if_needed(1, d.weight);
        call.set_if_needed(2, d.bias);
        call.set_if_needed(3, [&] { return d.h; });
      });
}

}  // namespace brim
