// Layers and directions of LSTM and GRU; each of them is an op (ops/recurrent/layer.h).
#include <brim/nn/recurrent.h>

#include <algorithm>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/shape.h>

#include "nn/layer.h"
#include "nn/module_calls.h"
#include "ops/recurrent/layer.h"

namespace brim::nn {
namespace {

const RecurrentOptions& checked_recurrent(const char* kind, const RecurrentOptions& o) {
  check_in_or_inferred(kind, o.in);
  check_positive(kind, "hidden", o.hidden);
  check_positive(kind, "layers", o.layers);
  BRIM_CHECK(0 <= o.dropout && o.dropout <= 1, ValueError,
             "[{}] dropout is {}; it must be in [0, 1]", kind, o.dropout);
  return o;
}

}  // namespace

Recurrent::Recurrent(const char* kind, int64_t gates, size_t states, const Options& o)
    : options_(checked_recurrent(kind, o)), gates_(gates), states_(states) {
  for (int64_t layer = 0; layer < o.layers; ++layer)
    for (const char* way : {"", "_reverse"}) {
      if (*way && !o.bidirectional) continue;
      const auto made = [&](const char* name) -> Tensor& {
        return parameter(fmt::format("{}_l{}{}", name, layer, way), {});
      };
      Tensor &weight_ih = made("weight_ih"), &weight_hh = made("weight_hh");
      Tensor &bias_ih = made("bias_ih"), &bias_hh = made("bias_hh");
      cells_.push_back({weight_ih, weight_hh, bias_ih, bias_hh});
    }
  if (o.in == 0)
    defer_parameters(where_of(o));
  else
    fill_cells(o);
}

/// Makes the parameters of all cells.
void Recurrent::fill_cells(const Options& o) {
  const int64_t directions = o.bidirectional ? 2 : 1, rows = gates_ * o.hidden;
  const double bound = 1 / std::sqrt(static_cast<double>(o.hidden));
  const auto make = [&](Tensor& parameter, const Shape& shape) {
    parameter = Tensor::empty(shape, o.dtype, o.device);
    init::uniform_(parameter, -bound, bound);
    parameter.set_requires_grad();
  };
  for (size_t i = 0; i < cells_.size(); ++i) {
    const Cell& cell = cells_[i];
    const bool is_first = static_cast<int64_t>(i) < directions;
    make(cell.weight_ih, {rows, is_first ? o.in : directions * o.hidden});
    make(cell.weight_hh, {rows, o.hidden});
    if (!o.bias) continue;
    make(cell.bias_ih, {rows});
    make(cell.bias_hh, {rows});
  }
}

Tensor Recurrent::forward(const Tensor& x) {
  std::vector<Tensor> states(states_);
  return run(x, states);
}

Tensor Recurrent::run_cell(const Cell& cell, const Tensor& x, bool reverse,
                           std::vector<Tensor>& states) const {
  std::vector<Tensor> result = steps(cell, x, states, reverse);
  std::move(result.begin() + 1, result.end(), states.begin());
  return result[0];
}

Tensor Recurrent::run(const Tensor& x, std::vector<Tensor>& states) {
  const ModuleCall call(*this);
  const Options& o = options;
  const char* layout = o.batch_first ? "x (N, T, in)" : "x (T, N, in)";
  BRIM_CHECK(x.defined(), ValueError,
             "[{}] a tensor is undefined (default-constructed); give it a value first", kind());
  if (deferred_parameters()) {
    BRIM_CHECK(x.rank() == 3 && x.size(2) > 0, ShapeError,
               "[{}] x is {}; {} is expected, where in is inferred", kind(), x.shape().str(),
               layout);
    make_deferred([&](const DeferredParameters& how) {
      const Options made = with_size(options_, &Options::in, x.size(2), how);
      fill_cells(made);
      options_ = made;
    });
  }
  BRIM_CHECK(x.rank() == 3 && x.size(2) == o.in, ShapeError, "[{}] expects {} with in = {}, got {}",
             kind(), layout, o.in, x.shape().str());
  Tensor y = o.batch_first ? x.transpose(0, 1) : x;
  BRIM_CHECK(y.size(0) > 0, ShapeError, "[{}] a sequence of shape {} has no steps", kind(),
             x.shape().str());
  const auto count = static_cast<int64_t>(cells_.size());
  const Shape shape = {count, y.size(1), o.hidden};
  std::vector<std::vector<Tensor>> cell_states(cells_.size());
  for (Tensor& state : states) {
    if (!state.defined()) state = zeros(shape, {.dtype = x.dtype(), .device = x.device()});
    BRIM_CHECK(state.shape() == shape, ShapeError, "[{}] a state of shape {} for x {}; expected {}",
               kind(), state.shape().str(), x.shape().str(), shape.str());
    const std::vector<Tensor> parts = unbind(state, 0);
    for (size_t i = 0; i < parts.size(); ++i) cell_states[i].push_back(parts[i]);
  }
  const size_t directions = o.bidirectional ? 2 : 1;
  for (size_t first = 0; first < cells_.size(); first += directions) {
    if (first > 0) y = dropout(y, o.dropout, training());
    std::vector<Tensor> ways;
    for (size_t way = 0; way < directions; ++way)
      ways.push_back(run_cell(cells_[first + way], y, way == 1, cell_states[first + way]));
    y = directions == 1 ? ways[0] : cat(ways, 2);
  }
  for (size_t k = 0; k < states.size(); ++k) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor>& of_cell : cell_states) parts.push_back(of_cell[k]);
    states[k] = stack(parts, 0);
  }
  return o.batch_first ? y.transpose(0, 1) : y;
}

std::string Recurrent::options_str() const {
  const Options& o = options;
  std::string text = fmt::format("in={}, hidden={}", in_str(o.in), o.hidden);
  if (o.layers != 1) text += fmt::format(", layers={}", o.layers);
  if (!o.bias) text += ", bias=false";
  if (o.batch_first) text += ", batch_first";
  if (o.dropout != 0) text += fmt::format(", dropout={}", o.dropout);
  return text + (o.bidirectional ? ", bidirectional" : "");
}

LSTM::LSTM(Options o) : Recurrent("LSTM", 4, 2, o) {}

LSTM::Result LSTM::forward(const Tensor& x, const State& state) {
  std::vector<Tensor> states = {state.h, state.c};
  const Tensor y = run(x, states);
  return {y, {states[0], states[1]}};
}

std::vector<Tensor> LSTM::steps(const Cell& cell, const Tensor& x,
                                const std::vector<Tensor>& states, bool reverse) const {
  return ops::recurrent_layer(backend::RecurrentCell::lstm, x,
                              {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh}, states,
                              reverse);
}

GRU::GRU(Options o) : Recurrent("GRU", 3, 1, o) {}

GRU::Result GRU::forward(const Tensor& x, const Tensor& h) {
  std::vector<Tensor> states = {h};
  const Tensor y = run(x, states);
  return {y, states[0]};
}

std::vector<Tensor> GRU::steps(const Cell& cell, const Tensor& x, const std::vector<Tensor>& states,
                               bool reverse) const {
  return ops::recurrent_layer(backend::RecurrentCell::gru, x,
                              {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh}, states,
                              reverse);
}

}  // namespace brim::nn
