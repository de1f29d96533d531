// From a recipe to the objects it describes.
#include "train/build.h"

#include <brim/data/loader.h>
#include <brim/optim/adam.h>
#include <brim/optim/rmsprop.h>
#include <brim/optim/sgd.h>
#include <brim/train/trainer.h>

#include <algorithm>
#include <cmath>

#include "backend/launch_policy.h"
#include "core/check.h"
#include "data/transform/plan.h"

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

data::Loader make_loader(const Recipe& recipe, data::Split split, bool training, int workers,
                         const data::OpenProgress& progress, const LoaderPlace& place) {
  const auto source = data::Source::open(recipe.data, split, progress);
  const InputRecipe& in = recipe.input;
  data::Transform transform;
  transform.normalize.mean.assign(in.mean.begin(), in.mean.end());
  transform.normalize.std.assign(in.std.begin(), in.std.end());
  data::ImageShape shape = source->image_shape();
  if (in.size > 0) {
    const int size = static_cast<int>(in.size);
    if (training && in.random_resized_crop) {
      transform.steps.emplace_back(
          data::RandomResizedCrop{.height = size, .scaled_decode = in.scaled_decode});
    } else if (shape.height != size || shape.width != size) {
      transform.steps.emplace_back(data::Resize{.height = size});
      transform.steps.emplace_back(data::CenterCrop{.height = size});
    }
    shape = {3, size, size};
  }
  if (training && in.crop_padding > 0) {
    BRIM_CHECK(
        shape.height > 0, ValueError,
        "[recipe] {}: input.crop_padding needs pictures of one size, and {} has several; set "
        "input.size",
        recipe.name, recipe.data);
    transform.steps.emplace_back(data::RandomCrop{.height = shape.height,
                                                  .width = shape.width,
                                                  .padding = static_cast<int>(in.crop_padding)});
  }
  if (training && in.flip) transform.steps.emplace_back(data::HorizontalFlip{});
  const bool possible =
      data::TransformPlan(transform).raw_shape(source->image_shape()) != data::ImageShape{};
  BRIM_CHECK(possible || place.augment_on != AugmentOn::device, ValueError,
             "[recipe] {}: to be augmented on {} the pictures must have one size, and {} has "
             "several; set input.size",
             recipe.name, place.target.str(), recipe.data);
  const bool raw = place.augment_on == AugmentOn::device ||
                   (place.augment_on == AugmentOn::automatic && possible &&
                    backend::has_own_kernels(place.target.kind));
  return data::Loader(
      source, transform,
      {.batch = recipe.batch,
       .workers = workers,
       .shuffle = training,
       .seed = recipe.seed,
       .on_error = in.on_corrupt == "skip" ? data::OnError::skip : data::OnError::raise,
       .target = place.target,
       .raw = raw});
}

}  // namespace brim::train
