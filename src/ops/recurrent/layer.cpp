// See layer.h. The kernel is cuDNN's on CUDA, and an LSTM's for training on the CPU.
#include "ops/recurrent/layer.h"

#include <optional>

#include <brim/core/tf32.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/recurrent.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/saved_bytes.h"
#include "ops/autocast.h"
#include "ops/recurrent/recurrent.h"

namespace brim::ops {
namespace {

using autograd::Saved;
using backend::RecurrentCell;
using backend::RecurrentLayer;

double layer_operations(const RecurrentLayer& l) {
  return 2.0 * static_cast<double>(l.steps * l.batch * l.hidden) *
         static_cast<double>(l.gates() * (l.in + l.hidden));
}

constexpr const char* kLayer = "recurrent_layer";
/// h and c: the states before the first step, last_h and last_c those after the last one; c and
/// last_c are undefined for a GRU. saved: bytes for the gradient, or undefined where there is none.
using LayerKernel = backend::Kernel<void(
    const Context&, const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
    const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& h, const Tensor& c, Tensor& y,
    Tensor& last_h, Tensor& last_c, Tensor& saved, const RecurrentLayer& layer)>;
const LayerKernel& layer_kernel() {
  static const LayerKernel kernel(
      kLayer,
      {.operands = "x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, y, last_h, last_c, saved"},
      [](const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
         const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
         const RecurrentLayer& layer) { return layer_operations(layer); });
  return kernel;
}

/// Gradients that nobody wants are undefined.
using LayerGradKernel = backend::Kernel<void(
    const Context&, const Tensor& dy, const Tensor& dlast_h, const Tensor& dlast_c, const Tensor& x,
    const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
    const Tensor& h, const Tensor& c, const Tensor& y, const Tensor& saved, Tensor& dx,
    Tensor& dweight_ih, Tensor& dweight_hh, Tensor& dbias_ih, Tensor& dbias_hh, Tensor& dh,
    Tensor& dc, const RecurrentLayer& layer)>;
const LayerGradKernel& layer_grad_kernel() {
  static const LayerGradKernel kernel(
      "recurrent_layer_grad",
      {.operands = "dy, dlast_h, dlast_c, x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, y, "
                   "saved, dx, dweight_ih, dweight_hh, dbias_ih, dbias_hh, dh, dc"},
      [](const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
         const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
         const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
         const Tensor&, const RecurrentLayer& layer) { return 2 * layer_operations(layer); });
  return kernel;
}

/// What the input gives the gates, and the biases that gru() does not add.
Tensor gates_of(RecurrentCell cell, const Tensor& x, const LayerWeights& w) {
  const bool both = cell == RecurrentCell::lstm && w.bias_ih.defined();
  return linear(x, w.weight_ih, both ? w.bias_ih + w.bias_hh : w.bias_ih);
}

std::vector<Tensor> composed_layer(RecurrentCell cell, const Tensor& x, const LayerWeights& w,
                                   const std::vector<Tensor>& states, bool reverse) {
  const Tensor gates = gates_of(cell, x, w);
  const std::vector<Tensor> all =
      cell == RecurrentCell::lstm
          ? lstm(gates, w.weight_hh, states[0], states[1], {.reverse = reverse})
          : std::vector{gru(gates, w.weight_hh, w.bias_hh, states[0], {.reverse = reverse})};
  std::vector<Tensor> result = {all[0]};
  for (const Tensor& state : all) result.push_back(state[reverse ? 0 : x.size(0) - 1]);
  return result;
}

/// The operands of a layer: tensors, or what is saved of them. c is that of an LSTM.
template <class T>
struct LayerOperands {
  T x, weight_ih, weight_hh, bias_ih, bias_hh, h, c;

  template <class F>
  auto map(const F& f) const {
    return LayerOperands<decltype(f(x))>{f(x),       f(weight_ih), f(weight_hh), f(bias_ih),
                                         f(bias_hh), f(h),         f(c)};
  }
};
using Operands = LayerOperands<Tensor>;

/// x (T, N, H) plus `term` (N, H) at the last step.
Tensor add_to_last(const Tensor& x, const Tensor& term) {
  const int64_t last = x.size(0) - 1;
  return cat({x.slice(0, 0, last), x.slice(0, last, last + 1) + term.unsqueeze(0)});
}

/// By ops that have gradients themselves.
void composed_layer_grad(autograd::GradCall& call, const RecurrentLayer& l, const Operands& o) {
  const bool is_lstm = l.cell == RecurrentCell::lstm;
  const StepOrder order = {l.steps, l.batch, l.hidden, false};
  const Tensor gates = gates_of(l.cell, o.x, {o.weight_ih, o.weight_hh, o.bias_ih, o.bias_hh});
  const Tensor dy = add_to_last(call.dy(0), call.dy(1));
  const StepGradients d =
      is_lstm ? composed_lstm_grad(order, dy, add_to_last(zeros_like(dy), call.dy(2)), gates,
                                   o.weight_hh, o.h, o.c)
              : composed_gru_grad(order, dy, gates, o.weight_hh, o.bias_hh, o.h);
  const auto dbias = [&] { return sum(d.gates, {0, 1}); };
  call.set_if_needed(0, [&] { return linear(d.gates, o.weight_ih.t()); });
  call.set_if_needed(1, [&] {
    const int64_t rows = l.steps * l.batch;
    return matmul(d.gates.reshape({rows, l.gates() * l.hidden}).t(), o.x.reshape({rows, l.in}));
  });
  call.set_if_needed(2, d.weight);
  call.set_if_needed(3, dbias);
  call.set_if_needed(4, [&] { return is_lstm ? dbias() : d.bias(); });
  call.set_if_needed(5, [&] { return d.h; });
  if (is_lstm) call.set_if_needed(6, [&] { return d.c; });
}

void fused_layer_grad(autograd::GradCall& call, const RecurrentLayer& layer, const Operands& o,
                      const Tensor& y, const Tensor& saved) {
  const Tensor dlast_c = o.c.defined() ? call.dy(2).contiguous() : Tensor();
  size_t input = 0;
  auto d = o.map([&](const Tensor& t) {
    return call.needs(input++) ? Tensor::empty(t.shape(), t.dtype(), t.device()) : Tensor();
  });
  layer_grad_kernel()(y.device(), y.dtype(), call.dy(0).contiguous(), call.dy(1).contiguous(),
                      dlast_c, o.x, o.weight_ih, o.weight_hh, o.bias_ih, o.bias_hh, o.h, o.c, y,
                      saved, d.x, d.weight_ih, d.weight_hh, d.bias_ih, d.bias_hh, d.h, d.c, layer);
  input = 0;
  (void)d.map([&](const Tensor& gradient) {
    call.set(input++, gradient);
    return true;
  });
}

/// Contiguous, and of no history.
Tensor plain(const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; }

std::vector<Tensor> fused_layer(const RecurrentLayer& layer, const Operands& o,
                                size_t saved_bytes) {
  const DType dtype = o.x.dtype();
  const Device device = o.x.device();
  Tensor y = Tensor::empty({layer.steps, layer.batch, layer.hidden}, dtype, device);
  Tensor last_h = Tensor::empty(o.h.shape(), dtype, device), last_c, saved;
  if (o.c.defined()) last_c = Tensor::empty(o.h.shape(), dtype, device);
  if (layer.grad) saved = Tensor::empty({static_cast<int64_t>(saved_bytes)}, DType::u8, device);
  const Operands in = o.map(plain);
  layer_kernel()(device, dtype, in.x, in.weight_ih, in.weight_hh, in.bias_ih, in.bias_hh, in.h,
                 in.c, y, last_h, last_c, saved, layer);
  std::vector<Tensor> outputs = {y, last_h};
  if (o.c.defined()) outputs.push_back(last_c);
  return extend::with_grad(
      layer.cell == RecurrentCell::lstm ? "lstm" : "gru", std::move(outputs),
      {o.x, o.weight_ih, o.weight_hh, o.bias_ih, o.bias_hh, o.h, o.c},
      [layer, saved, kept = o.map([](const Tensor& t) { return Saved(t); }),
       y_kept = Saved::output(y, 0)](autograd::GradCall& call) {
        const Operands operands = kept.map([&](const Saved& t) { return call[t]; });
        if (grad_enabled()) return composed_layer_grad(call, layer, operands);
        fused_layer_grad(call, layer, operands.map(plain), call[y_kept], saved);
      });
}

/// The bytes that one kernel for all of it fills, where there is one, and the operands fit: where
/// they do not, the ops apart say so.
std::optional<size_t> saved_bytes_of(const RecurrentLayer& layer, const Operands& o) {
  const int64_t rows = layer.gates() * layer.hidden;
  const auto fits = [&](const Tensor& t, const Shape& shape) {
    return t.defined() && t.device() == o.x.device() && t.dtype() == o.x.dtype() &&
           t.shape() == shape;
  };
  const auto fits_bias = [&](const Tensor& t) {
    return layer.bias ? fits(t, {rows}) : !t.defined();
  };
  const Shape state = {layer.batch, layer.hidden};
  if (!fits(o.weight_ih, {rows, layer.in}) || !fits(o.weight_hh, {rows, layer.hidden}) ||
      !fits_bias(o.bias_ih) || !fits_bias(o.bias_hh) || !fits(o.h, state) ||
      (layer.cell == RecurrentCell::lstm && !fits(o.c, state)))
    return {};
  return backend::saved_bytes(kLayer, o.x.device(), o.x.dtype(), layer);
}

}  // namespace

std::vector<Tensor> recurrent_layer(RecurrentCell cell, const Tensor& x, const LayerWeights& w,
                                    const std::vector<Tensor>& states, bool reverse) {
  const Tensor c = cell == RecurrentCell::lstm ? states[1] : Tensor();
  if (x.rank() != 3 || !layer_kernel().exists(x.device(), x.dtype()) ||
      (autocasting() && !layer_kernel().exists(x.device(), autograd::autocast_low(x).dtype())))
    return composed_layer(cell, x, w, states, reverse);
  if (autocasting()) [[unlikely]]
    return run_low(
        [&](const Tensor& low_x, const Tensor& weight_ih, const Tensor& weight_hh,
            const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& h, const Tensor& low_c) {
          return recurrent_layer(cell, low_x, {weight_ih, weight_hh, bias_ih, bias_hh}, {h, low_c},
                                 reverse);
        },
        x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, states[0], c);
  const RecurrentLayer layer = {.cell = cell,
                                .bias = w.bias_ih.defined(),
                                .tf32 = Tf32::allowed(),
                                .grad = autograd::needs_grad({x, w.weight_ih, w.weight_hh,
                                                              w.bias_ih, w.bias_hh, states[0], c}),
                                .steps = x.size(0),
                                .batch = x.size(1),
                                .in = x.size(2),
                                .hidden = states[0].size(-1)};
  Operands o = {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, states[0], c};
  const std::optional<size_t> bytes = saved_bytes_of(layer, o);
  if (!bytes) return composed_layer(cell, x, w, states, reverse);
  if (reverse) o.x = flip(x, {0});
  std::vector<Tensor> result = fused_layer(layer, o, *bytes);
  if (reverse) result[0] = flip(result[0], {0});
  return result;
}

}  // namespace brim::ops
