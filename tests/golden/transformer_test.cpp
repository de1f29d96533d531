// Layers of transformers against PyTorch's: names and shapes of the state, results, gradients. The
// cases are described in transformer.py.
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/create.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

namespace nn = brim::nn;
using brim::nn::AttentionMask;
using Tensors = std::vector<Tensor>;

constexpr int64_t kDim = 8, kHeads = 2, kHidden = 12, kBatch = 2, kLength = 5, kMemory = 7;

/// What a case is in brim: the module, and how it is called.
struct Layer {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensors&)> call;
};

/// False for the last key of the first sequence.
AttentionMask seen_keys(int64_t length) {
  Tensor keys = brim::ones({kBatch, length}, {.dtype = brim::bool_});
  keys.slice(0, 0, 1).slice(1, length - 1, length).fill_(0);
  return {.keys = keys};
}

template <class M, class Call>
Layer made(typename M::Options options, Call call) {
  const auto module = std::make_shared<M>(options);
  return {module, [module, call](const Tensors& x) { return call(*module, x); }};
}

Layer attention(nn::MultiheadAttention::Options options, const AttentionMask& mask = {}) {
  options.dim = kDim;
  options.heads = kHeads;
  return made<nn::MultiheadAttention>(options, [mask](nn::MultiheadAttention& m, const Tensors& x) {
    return m(x[0], x[x.size() > 1 ? 1 : 0], x.back(), mask);
  });
}

constexpr auto kRelu = nn::TransformerActivation::relu, kGelu = nn::TransformerActivation::gelu;

nn::TransformerLayerOptions layer(nn::TransformerActivation activation, bool norm_first) {
  return {.dim = kDim,
          .heads = kHeads,
          .hidden = kHidden,
          .activation = activation,
          .norm_first = norm_first};
}

Layer encoder(const nn::TransformerLayerOptions& options, const AttentionMask& mask = {}) {
  return made<nn::TransformerEncoderLayer>(
      options, [mask](nn::TransformerEncoderLayer& m, const Tensors& x) { return m(x[0], mask); });
}

Layer decoder(const nn::TransformerLayerOptions& options, const AttentionMask& mask,
              const AttentionMask& memory_mask) {
  return made<nn::TransformerDecoderLayer>(options,
                                           [=](nn::TransformerDecoderLayer& m, const Tensors& x) {
                                             return m(x[0], x[1], mask, memory_mask);
                                           });
}

std::map<std::string, std::function<Layer()>> layers() {
  const AttentionMask causal{.causal = true};
  return {
      {"attention_self", [] { return attention({}); }},
      {"attention_single", [] { return attention({}); }},
      {"attention_causal", [=] { return attention({}, causal); }},
      {"attention_keys", [] { return attention({}, seen_keys(kMemory)); }},
      {"attention_dims", [] { return attention({.key_dim = 6, .value_dim = 3}); }},
      {"attention_no_bias", [] { return attention({.bias = false}); }},
      {"encoder", [] { return encoder(layer(kRelu, false)); }},
      {"encoder_first", [] { return encoder(layer(kGelu, true), seen_keys(kLength)); }},
      {"decoder", [=] { return decoder(layer(kGelu, false), causal, {}); }},
      {"decoder_first", [] { return decoder(layer(kRelu, true), {}, seen_keys(kMemory)); }},
      {"rms_norm",
       [] {
         return made<nn::RMSNorm>({.shape = {kDim}},
                                  [](nn::RMSNorm& m, const Tensors& x) { return m(x[0]); });
       }},
  };
}

void check_layer(const File& golden, const std::string& key, const Layer& layer, DType dtype) {
  SCOPED_TRACE(key + " in " + std::string(brim::name(dtype)));
  const double tolerance = dtype == brim::f64 ? 1e-10 : 2e-4;
  nn::Module& net = *layer.module;
  net.eval();
  brim::StateDict state;
  for (const auto& [name, tensor] : golden.tensors)
    if (name.starts_with(key + "/state/")) state[name.substr(key.size() + 7)] = tensor;
  net.load_state_dict(state);
  net.to(dtype);
  Tensors inputs;
  while (golden.has(key + "/in/" + std::to_string(inputs.size())))
    inputs.push_back(golden.at(key + "/in/" + std::to_string(inputs.size()))
                         .to(dtype)
                         .detach()
                         .set_requires_grad());
  const Tensor out = layer.call(inputs);
  EXPECT_EQ(difference(out, golden.at(key + "/out"), tolerance), "");
  out.backward(golden.at(key + "/cotangent").to(dtype));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(
        difference(inputs[i].grad(), golden.at(key + "/grad/in/" + std::to_string(i)), tolerance),
        "")
        << "gradient of input " << i;
  for (const auto& [name, parameter] : net.named_parameters())
    EXPECT_EQ(difference(parameter.grad(), golden.at(key + "/grad/state/" + name), tolerance), "")
        << "gradient of " << name;
}

TEST(GoldenTransformer, LayersAreThoseOfPyTorch) {
  const File golden("transformer");
  std::set<std::string> stored, known;
  for (const auto& [name, tensor] : golden.tensors) stored.insert(name.substr(0, name.find('/')));
  for (const auto& [key, make] : layers()) {
    known.insert(key);
    for (const DType dtype : {brim::f64, brim::f32}) check_layer(golden, key, make(), dtype);
  }
  EXPECT_EQ(stored, known);
}

}  // namespace
}  // namespace golden
