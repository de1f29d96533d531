// What layers cost in each form.
#include <brim/autograd/autograd.h>
#include <brim/compress/shrink.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/sparse.h>
#include <brim/ops/sparse_int8.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/calibrate.h"
#include "compress/masked_weight.h"
#include "compress/moments.h"
#include "compress/shortest_times.h"
#include "core/check.h"
#include "nn/layer.h"

namespace brim::compress {
namespace {

/// One form of a layer: what it computes of inputs, and how long its weight is.
struct Computed {
  LayerForm form;
  std::function<Tensor(const Tensor& x)> output;
  int64_t bytes = 0;
};

Tensor sparse(const Prunable& layer, const SparseWeight& weight, const Tensor& x) {
  return layer.linear
             ? sparse_linear(x, weight, layer.linear->bias)
             : sparse_conv2d(x, weight, layer.conv->bias, nn::convolution_of(layer.conv->options));
}

/// That of x in both memory formats, the shorter one.
void add_calls(const std::function<Tensor(const Tensor& x)>& output, const Tensor& x,
               std::vector<std::function<void()>>& calls) {
  calls.emplace_back([output, x] { (void)output(x); });
  if (x.rank() == 4)
    calls.emplace_back([output, nhwc = x.to(MemoryFormat::nhwc)] { (void)output(nhwc); });
}

}  // namespace

struct FormMeter::State {
  nn::Module& network;
  const FormOptions options;
  std::vector<Watched> layers;
  std::vector<Tensor> dense;  // the outputs of the inputs
  std::vector<Tensor> timed;  // inputs of the layers for the batch that times are of

  State(nn::Module& n, FormOptions o) : network(n), options(std::move(o)) {}

  void check() const {
    BRIM_CHECK(!options.inputs.empty() && options.timed.defined() && options.distance, ValueError,
               "[shrink] inputs, a batch to be timed and a distance of outputs are needed");
    BRIM_CHECK(SparseWeight::has_vectors_of(options.vector), ValueError,
               "[shrink] vectors of {}: give 4, 8, 16, 32 or 64", options.vector);
    for (const double sparsity : options.sparsities)
      BRIM_CHECK(sparsity > 0 && sparsity < 1, ValueError,
                 "[shrink] a sparsity of {}: it is above 0 and below 1", sparsity);
  }
  void run() const {
    for (const Tensor& x : options.inputs) (void)network(x);
  }
  bool can_be_sparse(const Watched& w) const {
    return w.layer.groups() == 1 && w.layer.weight().dtype() == f32 &&
           w.layer.weight().size(0) >= options.vector && w.layer.weight().numel() > 0 &&
           w.layer.weight().device().kind != DeviceKind::cuda;
  }
  /// The dense one first.
  std::vector<Computed> forms_of(const Watched& w) const;
  /// Of the network's outputs with the layer in that form.
  double distance_of(const std::string& name, const Watched& w, const Computed& form) const;
};

std::vector<Computed> FormMeter::State::forms_of(const Watched& w) const {
  const Tensor weight = w.layer.weight().detach();
  std::vector<Computed> all = {
      {.form = {},
       .output = [&w, weight](const Tensor& x) { return w.computed(x, weight); },
       .bytes = weight.numel() * 4}};
  if (std::ranges::find(options.keep, w.report.name) != options.keep.end()) return all;
  const bool can_be_int8 = options.int8 && w.is_open();
  const Pattern pattern{.kind = Pattern::Kind::vector, .length = options.vector};
  for (const double sparsity : can_be_sparse(w) ? options.sparsities : std::vector<double>()) {
    const Tensor masked = masked_weight(weight, pattern, sparsity);
    SparseWeight encoded = SparseWeight::encode(masked, options.vector);
    const int64_t bytes = encoded.bytes();
    all.push_back({.form = {.sparsity = sparsity},
                   .output = [&w, encoded = std::move(encoded)](
                                 const Tensor& x) { return sparse(w.layer, encoded, x); },
                   .bytes = bytes});
    if (!can_be_int8) continue;
    SparseInt8Weight both = SparseInt8Weight::quantize(masked, options.vector);
    const int64_t bytes_of_both = both.bytes() + 4 * both.scales.numel();  // and corrections
    all.push_back(
        {.form = {.sparsity = sparsity, .int8 = true},
         .output = [&w, both = std::move(both)](const Tensor& x) { return w.sparse_int8(x, both); },
         .bytes = bytes_of_both});
  }
  if (can_be_int8)
    all.push_back({.form = {.int8 = true},
                   .output = [&w](const Tensor& x) { return w.int8(x); },
                   .bytes = w.report.weight.bytes()});
  return all;
}

double FormMeter::State::distance_of(const std::string& name, const Watched& w,
                                     const Computed& form) const {
  if (form.form.is_dense()) return 0;
  if (const auto layer = std::ranges::find(options.known, name, &LayerCosts::name);
      layer != options.known.end())
    if (const auto known = std::ranges::find(layer->forms, form.form, &FormCost::form);
        known != layer->forms.end())
      return known->distance;
  const auto in_form =
      w.module().register_forward_hook([&form, &w](nn::Module&, const Tensor& x, const Tensor& y) {
        const Tensor output = form.output(x);
        return form.form.sparsity > 0 ? with_moments_of(output, y, w.layer.conv != nullptr)
                                      : output;
      });
  double sum = 0;
  for (size_t i = 0; i < dense.size(); ++i)
    sum += options.distance(network(options.inputs[i]), dense[i]);
  const double mean = sum / static_cast<double>(dense.size());
  BRIM_CHECK(std::isfinite(mean), ValueError,
             "[shrink] with {} in {} the distance of the network's outputs is {}", w.report.name,
             form.form.str(), mean);
  return std::max(mean, 0.0);
}

FormMeter::FormMeter(nn::Module& network, FormOptions options)
    : state_(std::make_unique<State>(network, std::move(options))) {
  State& s = *state_;
  s.check();
  const NoGrad scope;
  const nn::EvalMode mode(network);
  const QuantizeOptions how{.only_faster = false, .keep = s.options.keep};
  s.layers = with_ranges(
      network, [&s] { s.run(); }, how);
  find_losses(
      s.layers, [&s] { s.run(); }, /*correct_bias=*/true);
  for (const Tensor& x : s.options.inputs) s.dense.push_back(network(x).detach());
  s.timed.resize(s.layers.size());
  std::vector<nn::Module::HookHandle> hooks;
  for (size_t i = 0; i < s.layers.size(); ++i)
    hooks.push_back(s.layers[i].module().register_forward_hook(
        [&s, i](nn::Module&, const Tensor& x, const Tensor&) {
          s.timed[i] = x.detach();
          return Tensor();
        }));
  (void)network(s.options.timed);
}

FormMeter::~FormMeter() = default;

size_t FormMeter::layers() const { return state_->layers.size(); }

const std::string& FormMeter::name(size_t layer) const {
  BRIM_CHECK(layer < layers(), IndexError, "[shrink] layer {} of {}", layer, layers());
  return state_->layers[layer].report.name;
}

LayerCosts FormMeter::measure(size_t layer) {
  const State& s = *state_;
  LayerCosts costs{.name = name(layer)};
  const Watched& w = s.layers[layer];
  const NoGrad scope;
  const nn::EvalMode mode(s.network);
  costs.shape = w.report.shape;
  const Tensor& x = s.timed[layer];
  std::vector<Computed> forms = s.forms_of(w);
  if (!x.defined()) {
    costs.why = "the network does not run it";
    forms.resize(1);
  } else if (forms.size() == 1) {
    costs.why = !w.report.why.empty() ? w.report.why : "its outputs are fewer than a vector";
  }
  std::vector<double> times(1, 0.0);
  size_t of_each = 1;
  if (x.defined()) {
    std::vector<std::function<void()>> calls;
    for (const Computed& form : forms) add_calls(form.output, x, calls);
    of_each = calls.size() / forms.size();
    times = shortest_times(calls, x.device());
  }
  for (size_t i = 0; i < forms.size(); ++i) {
    const auto first = times.begin() + static_cast<std::ptrdiff_t>(i * of_each);
    costs.forms.push_back(
        {.form = forms[i].form,
         .seconds = *std::min_element(first, first + static_cast<std::ptrdiff_t>(of_each)),
         .bytes = forms[i].bytes,
         .distance = s.distance_of(costs.name, w, forms[i])});
  }
  // Zeros are left out where that is faster.
  for (FormCost& cost : costs.forms)
    for (const FormCost& other : costs.forms)
      if (other.form.sparsity == 0 && other.form.int8 == cost.form.int8)
        cost.seconds = std::min(cost.seconds, other.seconds);
  return costs;
}

std::vector<QuantizedLayer> use_forms(nn::Module& network, const LayerForms& forms, int64_t vector,
                                      const std::function<void()>& run,
                                      const QuantizeOptions& options) {
  std::vector<std::string> names;
  for (const Prunable& layer : prunable_layers(network)) names.push_back(layer.name);
  for (const auto& [name, form] : forms)
    BRIM_CHECK(std::ranges::find(names, name) != names.end(), ValueError,
               "[shrink] a form of '{}', which is no convolution or linear layer of the network",
               name);
  std::vector<QuantizedLayer> in_int8;
  if (std::ranges::any_of(forms, [](const auto& f) { return f.second.int8; })) {
    QuantizeOptions these = options;
    these.only_faster = false;
    these.vector = vector;
    for (const std::string& name : names) {
      const auto form = forms.find(name);
      if (form == forms.end() || !form->second.int8) these.keep.push_back(name);
    }
    in_int8 = quantize(network, run, these);
  }
  (void)encode(network, vector);
  (void)use_int8(network, int8_layers(in_int8));  // in place of those that it has encoded
  return in_int8;
}

}  // namespace brim::compress
