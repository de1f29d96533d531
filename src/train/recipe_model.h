// The network of a recipe.
#pragma once

#include <brim/compress/channels.h>
#include <brim/nn/models.h>
#include <brim/train/recipe.h>

#include <memory>
#include <optional>

namespace brim::train {

/// The channels that the recipe says are left, and a recipe that says so.
compress::Channels channels_of(const ChannelsRecipe& recipe);
ChannelsRecipe recipe_of(const compress::Channels& channels);

/// What is left of a network of `before` that lost channels to have `now`.
ChannelsRecipe with_channels(ChannelsRecipe before, const compress::Channels& now);

/// `asked`, of the channels that are left of a network of `own`, where both have the same model and
/// `asked` names none: weights fit no other network.
Recipe with_channels_of(Recipe asked, const std::optional<Recipe>& own);

/// Of a whole training: those of the rounds of iterative pruning, too.
int64_t epochs_in_all(const Recipe& recipe);

/// The recipe's model with these options, of the channels that are left of it. Throws ValueError
/// where the model has no such channels.
std::unique_ptr<nn::Module> make_model(const Recipe& recipe, const nn::ModelOptions& options);

}  // namespace brim::train
