// See deploy_samples.h.
#include "bench/command/deploy_samples.h"

#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/diag/op_profile.h>
#include <brim/io/safetensors.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/train/weights.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "command/trained_network.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTokens = 256, kTokenLength = 128;

bool takes_tokens(const std::string& model) { return model.starts_with("transformer"); }

/// A sample as the network is known for.
Shape sample_of(const std::string& model) {
  if (model == "mlp") return {784};
  if (takes_tokens(model)) return {kTokenLength};
  if (model.starts_with("unet")) return {3, 128, 128};
  if (model == "tutorial-cnn" || model.find("cifar") != std::string::npos) return {3, 32, 32};
  return {3, 224, 224};
}

/// How the network would be trained: what its file says of it.
train::WeightsInfo info_of(const std::string& model) {
  const Shape sample = sample_of(model);
  train::Recipe recipe{.name = model, .model = model};
  if (takes_tokens(model)) {
    recipe.task = "language";
    recipe.input.window = kTokenLength;
    recipe.input.vocabulary = kTokens;
  } else if (model.starts_with("unet")) {
    recipe.task = "segment";
  }
  if (sample.rank() == 3) recipe.input.size = sample[1];
  const bool is_imagenet = sample.rank() == 3 && sample[1] == 224;
  const int64_t classes = takes_tokens(model) ? kTokens : is_imagenet ? 1000 : 10;
  train::WeightsInfo info{.recipe = recipe, .input = sample};
  for (int64_t i = 0; i < classes; ++i) info.classes.push_back(std::to_string(i));
  return info;
}

Tensor random_batch(const train::Recipe& recipe, const Shape& sample, int64_t batch) {
  Shape shape = sample;
  shape.insert(0, batch);
  if (recipe.task == "language") return randint(0, recipe.input.vocabulary, shape);
  return randn(shape);
}

/// Multiplications and additions of the products in a pass over one sample.
double product_flops(nn::Module& network, const Tensor& x) {
  diag::OpProfile profile(Device::cpu());
  profile.start();
  (void)network(x);
  profile.stop();
  double flops = 0;
  for (const diag::OpTime& op : profile.read())
    for (const char* product : {"conv2d", "linear", "matmul", "attention"})
      if (op.name.find(product) != std::string::npos) {
        flops += op.operations * static_cast<double>(op.calls);
        break;
      }
  return flops;
}

Json write_samples(nn::Module& network, const train::Recipe& recipe, const Shape& sample,
                   const std::vector<int64_t>& batches, const std::string& weights,
                   const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "samples.safetensors").string();
  io::TensorMap tensors;
  for (const int64_t batch : batches) {
    const Tensor x = random_batch(recipe, sample, batch);
    tensors[std::to_string(batch) + ":input"] = x;
    tensors[std::to_string(batch) + ":output"] = network(x).contiguous();
  }
  io::save_safetensors(path, tensors);
  return {{"model", recipe.model},
          {"task", recipe.task},
          {"weights", weights},
          {"samples", path},
          {"input", std::vector<int64_t>(sample.begin(), sample.end())},
          {"parameters", network.num_parameters()},
          {"flops", product_flops(network, random_batch(recipe, sample, 1))}};
}

}  // namespace

Json write_random_network(const std::string& model, bool in_integers,
                          const std::vector<int64_t>& batches, const std::string& folder) {
  manual_seed(7);
  const NoGrad scope;
  const train::WeightsInfo info = info_of(model);
  const auto network = nn::make_model(
      model, {.classes = static_cast<int64_t>(info.classes.size()), .input = info.input});
  network->train();
  for (int i = 0; i < 3; ++i) (void)(*network)(random_batch(*info.recipe, info.input, 4));
  network->eval();
  const std::string weights = (std::filesystem::path(folder) / "weights.safetensors").string();
  // Of floats: a product in integers counts none.
  Json about = write_samples(*network, *info.recipe, info.input, batches, weights, folder);
  about["int8_layers"] = 0;
  if (!in_integers) {
    train::save_weights(weights, *network, info);
    return about;
  }
  const Tensor calibration = random_batch(*info.recipe, info.input, 4);
  const compress::Int8Layers layers = compress::int8_layers(
      compress::quantize(*network, [&] { (void)(*network)(calibration); }, {.only_faster = false}));
  train::save_int8_weights(weights, *network, layers, info);
  const Json flops = about["flops"];
  about = write_samples(*network, *info.recipe, info.input, batches, weights, folder);
  about["flops"] = flops;
  about["int8_layers"] = layers.size();
  return about;
}

Json write_samples_of(const std::string& weights, const std::string& recipe,
                      const std::vector<int64_t>& batches, const std::string& folder) {
  manual_seed(7);
  const NoGrad scope;
  const TrainedNetwork net = open_network("bench", weights, recipe, Device::cpu());
  Shape sample = net.info.input;
  const int64_t side = net.recipe.input.size;
  if (sample.rank() == 0 && side > 0)
    sample = {net.recipe.input.channels > 0 ? net.recipe.input.channels : 3, side, side};
  BRIM_CHECK(sample.rank() > 0, ValueError,
             "[bench] neither {} nor its recipe says how large an input is; give the recipe "
             "[input] size",
             weights);
  Json about = write_samples(*net.network, net.recipe, sample, batches, weights, folder);
  about["int8_layers"] = train::WeightsFile(weights).int8_count();
  return about;
}

}  // namespace brim::command
