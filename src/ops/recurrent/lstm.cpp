// lstm: one kernel each way for all steps where the device has one, else ops step by step
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/recurrent.h>
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

/// What the steps leave behind, by ops, in their order.
struct LstmSteps {
  std::vector<Tensor> i, f, g, o, c, squashed, h;

  LstmSteps(const StepOrder& order, const Tensor& gates, const Tensor& weight, Tensor state,
            Tensor cell) {
    for (const Tensor& x : order.parts(gates)) {
      const std::vector<Tensor> sums = chunk(x + linear(state, weight), 4, 1);
      i.push_back(sigmoid(sums[0]));
      f.push_back(sigmoid(sums[1]));
      g.push_back(tanh(sums[2]));
      o.push_back(sigmoid(sums[3]));
      c.push_back(cell = f.back() * cell + i.back() * g.back());
      squashed.push_back(tanh(cell));
      h.push_back(state = o.back() * squashed.back());
    }
  }
};

}  // namespace

StepGradients ops::composed_lstm_grad(const StepOrder& order, const Tensor& dy,
                                      const Tensor& dcells, const Tensor& gates,
                                      const Tensor& narrow_weight, const Tensor& h,
                                      const Tensor& c) {
  const DType dtype = gates.dtype(), wide = ops::statistics_dtype(dtype);
  const Tensor weight = narrow_weight.to(wide), cell = c.to(wide), state = h.to(wide);
  const LstmSteps s(order, gates.to(wide), weight, state, cell);
  const std::vector<Tensor> up = order.parts(dy.to(wide)), more = order.parts(dcells.to(wide));
  std::vector<Tensor> dgates(up.size());
  Tensor dh = zeros_like(state), dc = zeros_like(cell);
  for (size_t t = up.size(); t-- > 0;) {
    const Tensor &i = s.i[t], &f = s.f[t], &g = s.g[t], &o = s.o[t];
    dh = dh + up[t];
    dc = dc + more[t] + dh * o * (1 - square(s.squashed[t]));
    dgates[t] = cat({dc * g * i * (1 - i), dc * (t == 0 ? cell : s.c[t - 1]) * f * (1 - f),
                     dc * i * (1 - square(g)), dh * s.squashed[t] * o * (1 - o)},
                    1);
    dh = matmul(dgates[t], weight);
    dc = dc * f;
  }
  const Tensor all = order.joined(dgates);
  return {all.to(dtype),
          dh.to(dtype),
          dc.to(dtype),
          [order, all, state, dtype, states = s.h] {
            return ops::recurrent_weight_grad(order, all, state, order.joined(states)).to(dtype);
          },
          {}};
}

namespace {

/// `saved`: the gates' values, (T, N, 4 H).
StepGradients fused_lstm_grad(const StepOrder& order, const Tensor& dy, const Tensor& dcells,
                              const Tensor& weight, const Tensor& h, const Tensor& c,
                              const Tensor& y, const Tensor& cells, const Tensor& saved) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& dcells,
                                    const Tensor& weight, const Tensor& c, const Tensor& cells,
                                    const Tensor& saved, Tensor& dgates, Tensor& dh, Tensor& dc,
                                    bool reverse)>
      kernel("lstm_grad", {.operands = "dy, dcells, weight, c, cells, saved, dgates, dh, dc"},
             [](const Tensor& up, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const bool&) { return ops::recurrent_operations(up, 4); });
  const DType dtype = dy.dtype();
  const Device device = dy.device();
  StepGradients d;
  d.gates = Tensor::empty(saved.shape(), dtype, device);
  d.h = Tensor::empty(h.shape(), dtype, device);
  d.c = Tensor::empty(h.shape(), dtype, device);
  kernel(device, dtype, dy.contiguous(), dcells.defined() ? dcells.contiguous() : dcells, weight,
         c.contiguous(), cells, saved, d.gates, d.h, d.c, order.reverse);
  d.weight = [order, dgates = d.gates, h, y] {
    return ops::recurrent_weight_grad(order, dgates, h, y);
  };
  return d;
}

}  // namespace

std::vector<Tensor> lstm(const Tensor& gates, const Tensor& weight_hh, const Tensor& h,
                         const Tensor& c, const RecurrentSteps& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return lstm(t..., options); }, gates, weight_hh, h,
                        c);
  static const backend::Kernel<void(const Context&, const Tensor& gates, const Tensor& weight,
                                    const Tensor& h, const Tensor& c, Tensor& y, Tensor& cells,
                                    Tensor& saved, bool reverse)>
      kernel("lstm", {.operands = "gates, weight, h, c, y, cells, saved"},
             [](const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& states,
                const Tensor&, const Tensor&,
                const bool&) { return ops::recurrent_operations(states, 4); });
  const StepOrder order =
      ops::check_steps("lstm", 4, gates, weight_hh, {}, {h, c}, options.reverse);
  const DType dtype = gates.dtype();
  const Device device = gates.device();
  if (!kernel.exists(device, dtype)) {
    const LstmSteps steps(order, gates, weight_hh, h, c);
    return {order.joined(steps.h), order.joined(steps.c)};
  }
  const Shape shape = order.shape(order.hidden);
  Tensor y = Tensor::empty(shape, dtype, device), cells = Tensor::empty(shape, dtype, device);
  Tensor saved;
  if (autograd::needs_grad({gates, weight_hh, h, c}))
    saved = Tensor::empty(gates.shape(), dtype, device);
  kernel(device, dtype, gates.detach().contiguous(), weight_hh.detach(), h.detach().contiguous(),
         c.detach().contiguous(), y, cells, saved, order.reverse);
  return extend::with_grad(
      "lstm", {y, cells}, {gates, weight_hh, h, c},
      [order, gates = autograd::Saved(gates), weight = autograd::Saved(weight_hh),
       h = autograd::Saved(h), c = autograd::Saved(c), y = autograd::Saved::output(y, 0),
       cells = autograd::Saved::output(cells, 1), saved](autograd::GradCall& call) {
        const StepGradients d =
            grad_enabled()
                ? ops::composed_lstm_grad(order, call.dy(0), call.dy(1), call[gates], call[weight],
                                          call[h], call[c])
                : fused_lstm_grad(order, call.dy(0), call.has_dy(1) ? call.dy(1) : Tensor(),
                                  call[weight], call[h], call[c], call[y], call[cells], saved);
        call.set_if_needed(0, [&] { return d.gates; });
        call.set_if_needed(1, d.weight);
        call.set_if_needed(2, [&] { return d.h; });
        call.set_if_needed(3, [&] { return d.c; });
      });
}

}  // namespace brim
