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

ChannelsRecipe with_channels(ChannelsRecipe before, const compress::Channels& now) {
  for (const auto& [name, count] : recipe_of(now).inputs) before.inputs[name] = count;
  for (const auto& [name, count] : recipe_of(now).outputs) before.outputs[name] = count;
  return before;
}

Recipe with_channels_of(Recipe asked, const std::optional<Recipe>& own) {
  const bool names_none = asked.channels.inputs.empty() && asked.channels.outputs.empty();
  if (own && own->model == asked.model && names_none) asked.channels = own->channels;
  return asked;
}

int64_t epochs_in_all(const Recipe& recipe) {
  const PruneRecipe& p = recipe.prune;
  if (!p.is_iterative()) return recipe.epochs;
  return (p.is_trained ? 0 : recipe.epochs) + p.rounds * (recipe.epochs - p.rewind_epoch);
}

std::unique_ptr<nn::Module> make_model(const Recipe& recipe, const nn::ModelOptions& options) {
  std::unique_ptr<nn::Module> model = nn::make_model(recipe.model, options);
  const compress::Channels channels = channels_of(recipe.channels);
  if (!channels.empty()) compress::resize_channels(*model, channels);
  return model;
}

}  // namespace brim::train
