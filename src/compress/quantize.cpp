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
    const Device device = found->weight().device();
    if (device.kind == DeviceKind::cuda) continue;
    const auto there = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
    const Int8Weight& w = layer.weight;
    changes.push_back(
        [layer = *found, input = layer.input,
         weight = Int8Weight::of(there(w.values), there(w.scales), there(w.correction))] {
          if (layer.linear) layer.linear->use_int8(weight, input);
          if (layer.conv) layer.conv->use_int8(weight, input);
        });
  }
  for (const auto& change : changes) change();
  return changes.size();
}

void use_dense(nn::Module& network) {
  for (const Prunable& layer : prunable_layers(network)) {
    if (layer.linear) layer.linear->use_dense();
    if (layer.conv) layer.conv->use_dense();
  }
}

FakeQuantizer::FakeQuantizer(nn::Module& network, const std::function<void()>& run,
                             const QuantizeOptions& options)
    : network_(network) {
  for (const Watched& w : calibrated(network, run, options)) {
    layers_.push_back(w.told);
    if (!w.is_open()) continue;
    const auto rounded = [layer = w.layer, input = w.told.input](const Tensor& x) {
      return Watched{.layer = layer, .told = {.input = input}}.rounded(x);
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
    Watched& w = layers.emplace_back(Watched{.layer = layer, .told = *known});
    if (!w.is_open()) continue;
    w.told.weight = Int8Weight::quantize(layer.weight());  // without the correction of before
  }
  hooks_.clear();
  return in_integers(std::move(layers));
}

}  // namespace brim::compress
