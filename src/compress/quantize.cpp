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
    BRIM_CHECK(found->weight().shape() == layer.weight.shape() && found->groups() == 1, ValueError,
               "[use_int8] '{}' is {} in the network, and {} in integers", name,
               found->weight().shape().str(), layer.weight.shape().str());
    layer.input.check();
    const Device device = found->weight().device();
    if (device.kind == DeviceKind::cuda) continue;
    changes.push_back([layer = *found, input = layer.input, weight = layer.weight.to(device)] {
      if (layer.linear) layer.linear->use_int8(weight, input);
      if (layer.conv) layer.conv->use_int8(weight, input);
    });
  }
  for (const auto& change : changes) change();
  return changes.size();
}

Int8Layers int8_layers(const std::vector<QuantizedLayer>& layers) {
  Int8Layers all;
  for (const QuantizedLayer& layer : layers)
    if (layer.why.empty())
      all[layer.name.empty() ? "weight" : layer.name + ".weight"] = {layer.weight, layer.input};
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
    : network_(network), run_(run) {
  for (const Watched& w : calibrated(network, run, options)) {
    layers_.push_back(w.report);
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
  BRIM_CHECK(!hooks_.empty(), ValueError, "[quantize] the layers are in integers already");
  const NoGrad scope;
  std::vector<Watched> layers;
  for (const Prunable& layer : prunable_layers(network_)) {
    const auto known = std::ranges::find(layers_, layer.name, &QuantizedLayer::name);
    BRIM_CHECK(known != layers_.end(), ValueError,
               "[quantize] the layer '{}' was not there when the FakeQuantizer was made",
               layer.name);
    Watched& w = layers.emplace_back(Watched{.layer = layer, .report = *known});
    if (!w.is_open()) continue;
    w.report.weight = Int8Weight::quantize(layer.weight());
  }
  hooks_.clear();
  const EvalMode mode(network_);
  find_losses(layers, run_, /*correct_bias=*/false);  // training has seen to that
  return in_integers(std::move(layers));
}

}  // namespace brim::compress
