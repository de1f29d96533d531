// From a recipe to the objects it describes.
#pragma once

#include <memory>

#include <brim/nn/module.h>
#include <brim/optim/optimizer.h>
#include <brim/optim/schedule.h>
#include <brim/train/recipe.h>
#include <brim/train/task.h>
#include <brim/train/trainer.h>

namespace brim::train {

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerRecipe& recipe,
                                                 const nn::Module& model);

/// Whether each rank must have exactly one part of a batch: with synchronised batch norm or
/// compressed gradients, several would make the bits depend on the number of ranks.
bool takes_one_part(const Recipe& recipe);

/// What ranks exchange f32 gradients as.
DType gradient_dtype(const Recipe& recipe);

/// A schedule that is stepped after every training step. Its units in the recipe are epochs.
std::unique_ptr<optim::Schedule> make_schedule(const Recipe& recipe, optim::Optimizer& optimizer,
                                               int64_t steps_per_epoch);

/// A loader of the data, as the recipe and what is beside it ask for; of what is not for training
/// perhaps a part. Throws ValueError, FileError.
data::Loader loader_of(const Recipe& recipe, const TaskData& data, bool training, int workers,
                       const LoaderPlace& place,
                       const std::shared_ptr<const data::Sampler>& sampler = {});

}  // namespace brim::train
