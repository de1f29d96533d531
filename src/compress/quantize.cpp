// quantize, and training with the rounding in sight.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "compress/calibrate.h"
#include "core/check.h"

namespace brim::compress {
namespace {

std::vector<QuantizedLayer> reports_of(std::vector<Watched> layers) {
  std::vector<QuantizedLayer> all;
  for (Watched& w : layers) all.push_back(std::move(w.report));
  return all;
}

/// The network's layers, as they were calibrated.
std::vector<Watched> calibrated_layers(nn::Module& network,
                                       const std::vector<QuantizedLayer>& reports) {
  std::vector<Watched> all;
  for (const Prunable& layer : prunable_layers(network)) {
    const auto known = std::ranges::find(reports, layer.name, &QuantizedLayer::name);
    BRIM_CHECK(known != reports.end(), ValueError,
               "[quantize] the layer '{}' is none of those that were calibrated", layer.name);
    all.push_back({.layer = layer, .report = *known});
  }
  return all;
}

}  // namespace

std::vector<QuantizedLayer> quantize(nn::Module& network, const std::function<void()>& run,
                                     const QuantizeOptions& options) {
  return in_integers(calibrated(network, run, options));
}

size_t use_int8(nn::Module& network, const Int8Layers& layers) {
  const std::vector<Prunable> all = prunable_layers(network);
  std::vector<std::function<void()>> changes;
  for (const auto& [name, layer] : layers) {
    const auto is_its = [&, of = &name](const Prunable& p) {
      return *of == (p.name.empty() ? "weight" : p.name + ".weight");
    };
    const auto found = std::ranges::find_if(all, is_its);
    BRIM_CHECK(found != all.end(), ValueError,
               "[use_int8] '{}' is no weight of a convolution or linear layer", name);
    BRIM_CHECK(layer.is_sparse() || layer.weight.packed.defined(), ValueError,
               "[use_int8] '{}' has no weight; make one with Int8Weight::quantize", name);
    BRIM_CHECK(found->weight().shape() == layer.shape() && found->groups() == 1, ValueError,
               "[use_int8] '{}' is {} in the network, and {} in integers", name,
               found->weight().shape().str(), layer.shape().str());
    layer.input.check();
    const Device device = found->weight().device();
    if (device.kind == DeviceKind::cuda) continue;
    Int8Layer there{.weight = {}, .input = layer.input};
    if (layer.is_sparse())
      there.sparse = layer.sparse.to(device);
    else
      there.weight = layer.weight.to(device);
    changes.push_back([of = *found, form = std::move(there)] { use_int8(of, form); });
  }
  for (const auto& change : changes) change();
  return changes.size();
}

Int8Layers int8_layers(const std::vector<QuantizedLayer>& layers) {
  Int8Layers all;
  for (const QuantizedLayer& layer : layers)
    if (layer.why.empty())
      all[layer.name.empty() ? "weight" : layer.name + ".weight"] = {
          .weight = layer.is_sparse() ? Int8Weight() : layer.weight,
          .input = layer.input,
          .sparse = layer.sparse};
  return all;
}

void use_dense(nn::Module& network) {
  for (const Prunable& layer : prunable_layers(network)) {
    if (layer.linear) layer.linear->use_dense();
    if (layer.conv) layer.conv->use_dense();
  }
}

FakeQuantizer::FakeQuantizer(nn::Module& network, const std::function<void()>& run,
                             const QuantizeOptions& options)
    : FakeQuantizer(network, reports_of(calibrated(network, run, options)), run) {}

FakeQuantizer::FakeQuantizer(nn::Module& network, std::vector<QuantizedLayer> layers,
                             const std::function<void()>& run)
    : network_(network), run_(run), layers_(std::move(layers)) {
  use_dense(network);
  for (const Watched& w : calibrated_layers(network_, layers_)) {
    if (!w.is_open()) continue;
    const auto rounded = [layer = w.layer, input = w.report.input](const Tensor& x) {
      return Watched{.layer = layer, .report = {.input = input}}.rounded(x);
    };
    hooks_.push_back(
        w.module().register_forward_hook([rounded](nn::Module&, const Tensor& x, const Tensor&) {
          return x.dtype() == DType::f32 ? rounded(x) : rounded(x.to(DType::f32)).to(x.dtype());
        }));
  }
}

FakeQuantizer::~FakeQuantizer() = default;

std::vector<QuantizedLayer> FakeQuantizer::quantize() {
  BRIM_CHECK(!is_over_, ValueError, "[quantize] the layers are in integers already");
  const NoGrad scope;
  std::vector<Watched> layers = calibrated_layers(network_, layers_);
  for (Watched& w : layers) {
    if (!w.is_open()) continue;
    w.report.weight = Int8Weight::quantize(w.layer.weight());
    if (!w.report.is_sparse()) continue;
    w.report.sparse = SparseInt8Weight::encode(w.report.weight, w.report.sparse.vector);
    if (w.report.sparse.density() == 1) w.report.sparse = {};  // zeros have been trained
  }
  hooks_.clear();
  is_over_ = true;
  const nn::EvalMode mode(network_);
  find_losses(layers, run_, /*correct_bias=*/false);  // training has seen to that
  return in_integers(std::move(layers));
}

}  // namespace brim::compress
