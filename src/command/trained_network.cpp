#include "command/trained_network.h"

#include <brim/nn/models.h>

#include <algorithm>

#include "command/compressed_layers.h"
#include "command/with_weights.h"
#include "core/check.h"
#include "train/recipe_model.h"

namespace brim::command {
namespace {

/// What the file says, or else the size that the network's number of classes sets in it.
int64_t output_count(const std::string& command, const train::WeightsInfo& info,
                     const train::WeightsFile& file, const train::Recipe& recipe) {
  if (recipe.task == "language") return recipe.input.vocabulary;
  if (!info.classes.empty()) return static_cast<int64_t>(info.classes.size());
  if (recipe.task == "regress") return 1;
  const std::string& model = recipe.model;
  const auto parameters = [&](int64_t classes) {
    return make_within(
               file, Device::cpu(),
               [&] { return nn::make_model(model, {.classes = classes, .input = info.input}); })
        ->named_parameters();
  };
  const NamedTensors two = parameters(2), three = parameters(3);
  for (size_t i = 0; i < std::min(two.size(), three.size()); ++i) {
    const auto& [name, x] = two[i];
    const Shape &a = x.shape(), &b = three[i].second.shape();
    if (a == b || a.rank() != b.rank()) continue;
    const auto& names = file.names();
    BRIM_CHECK(std::find(names.begin(), names.end(), name) != names.end(), FileError,
               "[{}] {} holds no {}, which would tell how many classes it knows; name the "
               "recipe of its network, which is not {}, with --recipe",
               command, file.path(), name, model);
    const Shape& shape = file.info(name).shape;
    for (int d = 0; d < a.rank(); ++d)
      if (a[d] == 2 && b[d] == 3 && d < shape.rank() && shape[d] > 0) return shape[d];
  }
  raise<FileError>(
      "[{}] {} does not tell how many classes it knows; use weights that `brim train` wrote",
      command, file.path());
}

}  // namespace

TrainedNetwork open_network(const std::string& command, const std::string& weights,
                            const std::string& recipe, Device device,
                            const std::function<void(const train::Recipe&)>& check) {
  const train::WeightsFile file(weights);
  TrainedNetwork net{.path = weights,
                     .info = train::read_weights_info(file),
                     .recipe = {},
                     .device = device,
                     .network = {},
                     .int8 = {}};
  BRIM_CHECK(net.info.recipe || !recipe.empty(), ValueError,
             "[{}] {} does not say which recipe made it; name one with --recipe", command, weights);
  net.recipe = recipe.empty()
                   ? *net.info.recipe
                   : train::with_channels_of(train::load_recipe(recipe), net.info.recipe);
  if (check) check(net.recipe);
  if (net.recipe.task == "language") net.info.input = {net.recipe.input.window};
  net.network = with_weights(file, device, [&] {
    return train::make_model(net.recipe,
                             {.classes = output_count(command, net.info, file, net.recipe),
                              .input = net.info.input,
                              .device = device});
  });
  net.network->eval();
  net.int8 =
      use_int8_layers(*net.network, file);  // sparse ones are measured, which is not worth it
  return net;
}

}  // namespace brim::command
