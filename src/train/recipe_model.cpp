#include "train/recipe_model.h"

namespace brim::train {

compress::Channels channels_of(const ChannelsRecipe& recipe) {
  compress::Channels all;
  for (const auto& [name, count] : recipe.inputs) all.inputs[name] = static_cast<int64_t>(count);
  for (const auto& [name, count] : recipe.outputs) all.outputs[name] = static_cast<int64_t>(count);
  return all;
}

ChannelsRecipe recipe_of(const compress::Channels& channels) {
  ChannelsRecipe all;
  for (const auto& [name, count] : channels.inputs) all.inputs[name] = static_cast<double>(count);
  for (const auto& [name, count] : channels.outputs) all.outputs[name] = static_cast<double>(count);
  return all;
}

std::unique_ptr<nn::Module> make_model(const Recipe& recipe, const nn::ModelOptions& options) {
  std::unique_ptr<nn::Module> model = nn::make_model(recipe.model, options);
  const compress::Channels channels = channels_of(recipe.channels);
  if (!channels.empty()) compress::resize_channels(*model, channels);
  return model;
}

}  // namespace brim::train
