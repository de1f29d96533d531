// From a recipe to the objects it describes.
#include "train/build.h"

#include <brim/data/loader.h>
#include <brim/nn/models.h>
#include <brim/optim/adam.h>
#include <brim/optim/rmsprop.h>
#include <brim/optim/sgd.h>
#include <brim/train/trainer.h>

#include <algorithm>
#include <cmath>

#include "backend/launch_policy.h"
#include "core/check.h"
#include "data/transform/plan.h"
#include "train/recipe_model.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

int64_t to_steps(double epochs, int64_t steps_per_epoch) {
  return std::max<int64_t>(1, std::llround(epochs * static_cast<double>(steps_per_epoch)));
}

optim::LrRule schedule_rule(const Recipe& recipe, int64_t steps_per_epoch) {
  const ScheduleRecipe& s = recipe.schedule;
  const int64_t warmup = s.warmup > 0 ? to_steps(s.warmup, steps_per_epoch) : 0;
  const int64_t total = recipe.epochs * steps_per_epoch;
  optim::LrRule rule = [](int64_t, double base) { return base; };
  if (s.name == "step")
    rule = optim::step_lr({.step_size = to_steps(s.step_size, steps_per_epoch), .gamma = s.gamma});
  if (s.name == "cosine")
    rule = optim::cosine_annealing_lr(
        {.T_max = std::max<int64_t>(1, total - warmup), .eta_min = s.min_lr});
  if (warmup == 0) return rule;
  const optim::LrRule rise = optim::linear_lr(
      {.start_factor = 1 / static_cast<double>(warmup + 1), .total_iters = warmup});
  return optim::sequential_lr({rise, rule}, {warmup});
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerRecipe& r,
                                                 const nn::Module& model) {
  const auto params = model.named_parameters();
  if (r.name == "sgd")
    return std::make_unique<optim::SGD>(params, optim::SGDOptions{.lr = r.lr,
                                                                  .momentum = r.momentum,
                                                                  .weight_decay = r.weight_decay,
                                                                  .nesterov = r.nesterov});
  if (r.name == "adam")
    return std::make_unique<optim::Adam>(params,
                                         optim::AdamOptions{.lr = r.lr,
                                                            .beta1 = r.beta1,
                                                            .beta2 = r.beta2,
                                                            .eps = r.eps,
                                                            .weight_decay = r.weight_decay});
  if (r.name == "adamw")
    return std::make_unique<optim::AdamW>(params,
                                          optim::AdamWOptions{.lr = r.lr,
                                                              .beta1 = r.beta1,
                                                              .beta2 = r.beta2,
                                                              .eps = r.eps,
                                                              .weight_decay = r.weight_decay});
  BRIM_CHECK(r.name == "rmsprop", ValueError, "[recipe] optimizer.name '{}' is unknown", r.name);
  return std::make_unique<optim::RMSprop>(params,
                                          optim::RMSpropOptions{.lr = r.lr,
                                                                .alpha = r.alpha,
                                                                .eps = r.eps,
                                                                .weight_decay = r.weight_decay,
                                                                .momentum = r.momentum});
}

bool takes_one_part(const Recipe& recipe) {
  return recipe.sync_batch_norm || recipe.compress_gradients != "none";
}

DType gradient_dtype(const Recipe& recipe) {
  return recipe.compress_gradients == "bf16"   ? DType::bf16
         : recipe.compress_gradients == "fp16" ? DType::f16
                                               : DType::f32;
}

std::unique_ptr<optim::Schedule> make_schedule(const Recipe& recipe, optim::Optimizer& optimizer,
                                               int64_t steps_per_epoch) {
  const ScheduleRecipe& s = recipe.schedule;
  if (s.name == "one-cycle")
    return std::make_unique<optim::OneCycleLR>(
        optimizer,
        optim::OneCycleLROptions{
            .max_lr = s.max_lr > 0 ? s.max_lr : 10 * recipe.optimizer.lr,
            // One more than steps: the schedule also moves after the last one.
            .total_steps = recipe.epochs * steps_per_epoch + 1,
            .pct_start = s.pct_start,
            .cycle_momentum = optimizer.has_option("beta1") || recipe.optimizer.momentum > 0});
  return std::make_unique<optim::Schedule>(optimizer, schedule_rule(recipe, steps_per_epoch));
}

data::Loader loader_of(const Recipe& recipe, const TaskData& data, bool training, int workers,
                       const LoaderPlace& place,
                       const std::shared_ptr<const data::Sampler>& sampler) {
  data::LoaderOptions options{.batch = recipe.batch,
                              .workers = workers,
                              .shuffle = training,
                              .seed = recipe.seed,
                              .target = place.target};
  // Parts of a batch are equal, so what cannot be read is replaced where others train on parts.
  const bool is_cut = training && (place.world_size > 1 || place.virtual_ranks > 1);
  if (recipe.input.on_corrupt == "skip")
    options.on_error = is_cut ? data::OnError::replace : data::OnError::skip;
  if (training) {
    options.batch /= place.world_size;
    options.rank = place.rank, options.world_size = place.world_size;
    options.multiple_of = place.virtual_ranks;
  } else {
    options.sampler = sampler;
  }
  if (!data.pictures) {
    BRIM_CHECK(
        place.augment_on != AugmentOn::device, ValueError,
        "[recipe] {}: only labelled pictures of 8 bits are augmented on {} or lie there; leave "
        "TrainOptions::augment_on and TrainOptions::data_on_device out",
        recipe.name, place.target.str());
    return data::Loader(data.samples, options);
  }
  const data::ImageShape shape = data.pictures->image_shape();
  const data::Transform transform = transform_of(recipe, shape, training);
  const bool possible = data::TransformPlan(transform).raw_shape(shape) != data::ImageShape{};
  BRIM_CHECK(possible || place.augment_on != AugmentOn::device, ValueError,
             "[recipe] {}: to be augmented on {} the pictures must have one size, and {} has "
             "several; set input.size",
             recipe.name, place.target.str(), recipe.data);
  options.raw = place.augment_on == AugmentOn::device ||
                (place.augment_on == AugmentOn::automatic && possible &&
                 backend::has_own_kernels(place.target.kind));
  return data::Loader(data.pictures, transform, options);
}

OpenSplit open_split(const Recipe& recipe, data::Split split, bool training, int workers,
                     const data::OpenProgress& progress, const LoaderPlace& place,
                     const TaskData* like) {
  const std::unique_ptr<Task> task = make_task(recipe);
  TaskData data = open_data(*task, recipe, {split, training, progress, like});
  data::Loader loader = loader_of(recipe, data, training, workers, place);
  return {std::move(data), std::move(loader)};
}

data::Loader make_loader(const Recipe& recipe, data::Split split, bool training, int workers,
                         const data::OpenProgress& progress, const LoaderPlace& place) {
  return open_split(recipe, split, training, workers, progress, place).loader;
}

std::unique_ptr<nn::Module> make_network(const Recipe& recipe, const TaskData& data,
                                         Device device) {
  return make_model(
      recipe, {.classes = data.outputs, .input = input_shape(data, recipe), .device = device});
}

}  // namespace brim::train
