// Fully connected layers: linear -> relu becomes linear_relu; what the backward pass does with the
// gradient of one layer (relu_grad, the products with the weight and with x, the sum of rows)
// becomes linear_grad; and where nobody but the optimizer reads the gradients, the optimizer's step
// moves into it: linear_grad_sgd and so on.
#include <fmt/core.h>

#include <algorithm>

#include "backend/fused_linear.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

using backend::LinearKernel;
using OptimKernel =
    backend::Kernel<void(const Context&, std::span<Tensor> params, std::span<const Tensor> grads,
                         std::span<Tensor> states, const formula::StepParams&)>;

const Launch& at(const Program& program, int index) {
  return *program.launches[static_cast<size_t>(index)];
}

/// True if no launch between the two writes `t`.
bool holds(const Uses& uses, const Tensor& t, int first, int last) {
  const std::vector<int>& writers = uses.writers(t);
  return std::none_of(writers.begin(), writers.end(), [&](int w) { return w > first && w < last; });
}

/// True if launch `index` is the first that writes `t`, and whoever reads it comes later.
bool made_by(const Uses& uses, const Tensor& t, int index) {
  const std::vector<int>&readers = uses.readers(t), &writers = uses.writers(t);
  return writers.front() == index && (readers.empty() || readers.front() > index);
}

/// `t` as a dense (rows, columns) matrix.
Tensor matrix(const Tensor& t, int64_t rows, int64_t columns) {
  return t.alias({rows, columns}, {columns, 1}, t.offset());
}

bool plain(const Launch& launch) { return !launch.refresh && !launch.commit && !launch.draw; }

// --- forward

bool fuse_relu(Program& program) {
  static const LinearKernel kernel("linear_relu");
  const Uses uses(program);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& linear = *program.launches[i];
    if (!is(linear, "linear") || !program.temporary(linear.operand(3)) ||
        !backend::has_kernel(kernel.name(), linear.device(), linear.dtype()))
      continue;
    const int index = static_cast<int>(i), next = uses.reader(linear.operand(3));
    if (next <= index || uses.writer(linear.operand(3)) != index) continue;
    const Launch& relu = at(program, next);
    if (!is(relu, "relu") || relu.dtype() != linear.dtype()) continue;
    const Tensor &y = linear.operand(3), &z = relu.operand(1);
    if (!relu.operand(0).is_contiguous() || !z.is_contiguous() || z.numel() != y.numel() ||
        relu.operand(0).offset() != y.offset() || !made_by(uses, z, next))
      continue;
    Tensor to = matrix(z, y.shape()[0], y.shape()[1]);
    program.launches[i] = kernel.launch(linear.device(), linear.dtype(), linear.operand(0),
                                        linear.operand(1), linear.operand(2), to);
    program.launches[static_cast<size_t>(next)] = nullptr;
    program.compact();
    return true;
  }
  return false;
}

// --- backward

/// The launches that work on the gradient dz of one layer; -1 for one that is not there.
struct Layer {
  int relu = -1, dx = -1, dw = -1, db = -1;
  Tensor dz;  // (N, O) dense

  int first() const {
    int least = dw;
    for (const int i : {dx, db})
      if (i >= 0) least = std::min(least, i);
    return least;
  }
  int last() const { return std::max({dw, dx, db}); }
  bool contains(int i) const { return i == dw || i == dx || i == db; }
};

bool is_matrix(const Tensor& t) { return t.rank() == 2 && t.is_contiguous(); }

/// True if launch `index`, which writes its last operand, could run at `place`.
bool can_move(const Program& program, const Uses& uses, int index, int place) {
  const Launch& launch = at(program, index);
  for (const Operand& o : launch.operands())
    if (o.writes ? !made_by(uses, *o.tensor, index) : !holds(uses, *o.tensor, place - 1, index))
      return false;
  return plain(launch);
}

/// The layer whose weight's gradient launch `index` makes; its dw is -1 if it makes none.
Layer find_layer(const Program& program, const Uses& uses, int index) {
  const Launch& product = at(program, index);
  if (!is(product, "matmul") || !plain(product)) return {};
  const Tensor &a = product.operand(0), &x = product.operand(1), &dw = product.operand(2);
  if (a.rank() != 2 || x.rank() != 2 || !is_matrix(dw)) return {};
  const Tensor dz = a.transpose(0, 1);
  if (!is_matrix(dz)) return {};
  Layer layer{.dw = index, .dz = dz};
  for (const int r : uses.readers(dz)) {
    const Launch& other = at(program, r);
    if (r == index || other.operands().size() < 2 || !same_view(other.operand(0), dz)) continue;
    if (is(other, "sum") && layer.db < 0 && other.operand(1).shape() == Shape{1, dz.shape()[1]} &&
        other.operand(1).is_contiguous())
      layer.db = r;
    if (is(other, "matmul") && layer.dx < 0 && is_matrix(other.operand(1)) &&
        other.operand(1).shape() == dw.shape() && is_matrix(other.operand(2)))
      layer.dx = r;
  }
  const int place = layer.first();
  for (int* part : {&layer.db, &layer.dx})
    if (*part >= 0 && !can_move(program, uses, *part, place)) *part = -1;
  if (!can_move(program, uses, index, layer.first())) return {};
  return layer;
}

/// Finds the relu_grad that makes dz for this layer alone.
void find_relu(const Program& program, const Uses& uses, Layer& layer) {
  const int r = uses.writer(layer.dz);
  if (r < 0 || r >= layer.first() || !program.temporary(layer.dz)) return;
  const Launch& relu = at(program, r);
  if (!is(relu, "relu_grad") || !plain(relu)) return;
  for (const int reader : uses.readers(layer.dz))
    if (!layer.contains(reader)) return;
  for (const Operand& o : relu.operands())
    if (!o.tensor->is_contiguous() || o.tensor->numel() != layer.dz.numel() ||
        (!o.writes && !holds(uses, *o.tensor, r, layer.first())))
      return;
  layer.relu = r;
}

// --- the optimizer

struct Rule {
  const char* fused;
  int states;
};

template <class... F>
const Rule* rule_of(std::string_view name, formula::List<F...>) {
  const Rule* found = nullptr;
  const auto look = [&]<class G>(const G*) {
    static const Rule rule{backend::linear_step_name<G>(), G::kStates};
    if (name == G::kName) found = &rule;
  };
  (look(static_cast<const F*>(nullptr)), ...);
  return found;
}

const Rule* rule_of(const Launch& launch) {
  return rule_of(launch.name(), formula::OptimFormulas{});
}

/// The arguments of an optimizer's launch.
struct OptimStep {
  std::vector<Tensor> params, grads, states;

  OptimStep(const Launch& launch, const Rule& rule) {
    const size_t total = launch.operands().size();
    const size_t count = total / static_cast<size_t>(2 + rule.states);
    for (size_t i = 0; i < total; ++i)
      (i < count ? params : i < 2 * count ? grads : states).push_back(launch.operand(i));
  }
  /// Which parameter has the gradient `grad`; -1 for none.
  int find(const Tensor& grad) const {
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].storage() == grad.storage() && grads[i].offset() == grad.offset() &&
          grads[i].numel() == grad.numel() && grads[i].is_contiguous() && params[i].is_contiguous())
        return static_cast<int>(i);
    return -1;
  }
  std::span<const Tensor> states_of(int i, const Rule& rule) const {
    const auto count = static_cast<size_t>(rule.states);
    return std::span(states).subspan(static_cast<size_t>(i) * count, count);
  }
  void drop(int i, const Rule& rule) {
    params.erase(params.begin() + i);
    grads.erase(grads.begin() + i);
    states.erase(states.begin() + i * rule.states, states.begin() + (i + 1) * rule.states);
  }
};

/// A layer's step: which optimizer's launch it comes from, and which parameters.
struct Folded {
  int launch = -1, weight = -1, bias = -1;
};

Folded find_step(const Program& program, const Uses& uses, const Layer& layer) {
  const Tensor& dw = at(program, layer.dw).operand(2);
  const int index = uses.reader(dw);
  if (index < 0 || !program.temporary(dw) || uses.writer(dw) != layer.dw) return {};
  const Launch& launch = at(program, index);
  const Rule* rule = rule_of(launch);
  if (!rule || !backend::has_kernel(rule->fused, launch.device(), launch.dtype())) return {};
  const OptimStep step(launch, *rule);
  Folded folded{index, step.find(dw), -1};
  if (folded.weight < 0) return {};
  if (layer.db >= 0) {
    const Tensor& db = at(program, layer.db).operand(1);
    folded.bias = step.find(db);
    if (uses.reader(db) != index || uses.writer(db) != layer.db || folded.bias < 0 ||
        !program.temporary(db))
      return {};
  }
  // What the step changes must not be looked at between its new place and the old one, nor by the
  // fused launch itself, but for the weight from which dx comes.
  std::vector<Tensor> looked_at{layer.dz, at(program, layer.dw).operand(1)};
  if (layer.relu >= 0)
    for (const Operand& o : at(program, layer.relu).operands()) looked_at.push_back(*o.tensor);
  for (const int p : {folded.weight, folded.bias}) {
    if (p < 0) continue;
    std::vector<Tensor> touched(step.states_of(p, *rule).begin(), step.states_of(p, *rule).end());
    for (const Tensor& state : touched)
      if (!state.is_contiguous()) return {};
    touched.push_back(step.params[static_cast<size_t>(p)]);
    for (const Tensor& t : touched)
      for (const Tensor& other : looked_at)
        if (t.storage() == other.storage()) return {};
    for (const Tensor& t : touched)
      for (const auto* list : {&uses.readers(t), &uses.writers(t)})
        for (const int i : *list)
          if (i >= layer.first() && i < index && !layer.contains(i)) return {};
  }
  if (layer.dx >= 0 &&
      !same_view(at(program, layer.dx).operand(1), step.params[static_cast<size_t>(folded.weight)]))
    return {};
  return folded;
}

/// The layer's launch with the optimizer's step in it; takes its tensors out of the optimizer's.
std::unique_ptr<Launch> with_step(Program& program, const Folded& folded, const Tensor& x,
                                  const Tensor& dy, const Tensor& y, Tensor& dx) {
  std::unique_ptr<Launch>& old = program.launches[static_cast<size_t>(folded.launch)];
  const Rule& rule = *rule_of(*old);
  OptimStep step(*old, rule);
  Tensor weight = step.params[static_cast<size_t>(folded.weight)], bias;
  std::vector<Tensor> states(step.states_of(folded.weight, rule).begin(),
                             step.states_of(folded.weight, rule).end());
  if (folded.bias >= 0) {
    bias = step.params[static_cast<size_t>(folded.bias)];
    for (const Tensor& s : step.states_of(folded.bias, rule)) states.push_back(s);
  }
  const auto& params = *old->option<formula::StepParams>();
  auto fused = backend::LinearStepKernel(rule.fused)
                   .launch(old->device(), old->dtype(), x, weight, bias, dy, y, dx, states, params);
  fused->refresh = old->refresh;
  step.drop(std::max(folded.weight, folded.bias), rule);
  if (folded.bias >= 0) step.drop(std::min(folded.weight, folded.bias), rule);
  if (step.params.empty()) {
    fused->commit = std::move(old->commit);
    old = nullptr;
    return fused;
  }
  auto rest =
      OptimKernel(old->name())
          .launch(old->device(), old->dtype(), step.params, step.grads, step.states, params);
  rest->refresh = std::move(old->refresh);
  rest->commit = std::move(old->commit);
  old = std::move(rest);
  return fused;
}

/// Whether the device has linear_grad, and it pays for the layer whose weight's gradient it makes.
bool fast(const Launch& product) {
  const Shape &x = product.operand(1).shape(), &dw = product.operand(2).shape();
  return backend::has_kernel("linear_grad", product.device(), product.dtype()) &&
         backend::linear_grad_is_fast(product.device().kind, x[0], dw[1], dw[0]);
}

struct Counts {
  int relus = 0, layers = 0, steps = 0;
};

bool fuse_layer(Program& program, Counts& counts) {
  static const backend::LinearGradKernel kernel("linear_grad");
  const Uses uses(program);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    Layer layer = find_layer(program, uses, static_cast<int>(i));
    if (layer.dw < 0) continue;
    find_relu(program, uses, layer);
    const Folded folded = find_step(program, uses, layer);
    const Launch& product = at(program, layer.dw);
    if (folded.launch < 0 && ((layer.dx < 0 && layer.db < 0 && layer.relu < 0) || !fast(product)))
      continue;
    const Tensor x = product.operand(1);
    Tensor dw = product.operand(2), dx, db, dy = layer.dz, y, weight;
    if (layer.dx >= 0) {
      weight = at(program, layer.dx).operand(1);
      dx = at(program, layer.dx).operand(2);
    }
    if (layer.db >= 0) db = at(program, layer.db).operand(1).squeeze(0);
    if (layer.relu >= 0) {
      y = matrix(at(program, layer.relu).operand(1), dy.shape()[0], dy.shape()[1]);
      dy = matrix(at(program, layer.relu).operand(0), dy.shape()[0], dy.shape()[1]);
    }
    const Device device = product.device();
    const DType dtype = product.dtype();
    std::unique_ptr<Launch> fused =
        folded.launch >= 0 ? with_step(program, folded, x, dy, y, dx)
                           : kernel.launch(device, dtype, x, weight, dy, y, dx, dw, db);
    const int place = layer.first();
    for (const int part : {layer.relu, layer.dx, layer.dw, layer.db})
      if (part >= 0) program.launches[static_cast<size_t>(part)] = nullptr;
    program.launches[static_cast<size_t>(place)] = std::move(fused);
    program.compact();
    ++counts.layers;
    counts.steps += folded.launch >= 0;
    return true;
  }
  return false;
}

}  // namespace

std::string fuse_linear(Program& program) {
  Counts counts;
  while (fuse_relu(program)) ++counts.relus;
  while (fuse_layer(program, counts)) {
  }
  if (counts.relus + counts.layers == 0) return "";
  return fmt::format(
      "{} linear with their relu, {} gradients of linear, {} with the optimizer's step",
      counts.relus, counts.layers, counts.steps);
}

}  // namespace brim::plan
