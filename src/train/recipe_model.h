// The network of a recipe.
#pragma once

#include <brim/compress/channels.h>
#include <brim/nn/models.h>
#include <brim/train/recipe.h>

#include <memory>

namespace brim::train {

/// The channels that the recipe says are left, and a recipe that says so.
compress::Channels channels_of(const ChannelsRecipe& recipe);
ChannelsRecipe recipe_of(const compress::Channels& channels);

/// The recipe's model with these options, of the channels that are left of it. Throws ValueError
/// where the model has no such channels.
std::unique_ptr<nn::Module> make_model(const Recipe& recipe, const nn::ModelOptions& options);

}  // namespace brim::train
