// What recipes and TrainOptions say of speed.
#include <brim/train/trainer.h>

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/nearest.h"
#include "train/recipe_fields.h"

namespace brim::train {
namespace {

constexpr std::array kPlaces = {AugmentOn::automatic, AugmentOn::host, AugmentOn::device};

}  // namespace

TrainOptions with_speed(TrainOptions options, const SpeedRecipe& speed) {
  const std::vector<std::string>& names = places_to_augment();
  const auto place = std::ranges::find(names, speed.augment_on);
  BRIM_CHECK(place != names.end(), ValueError, "[recipe] speed.augment_on '{}' is unknown{}",
             speed.augment_on, suggestion(speed.augment_on, names));
  options.augment_on = kPlaces[static_cast<size_t>(place - names.begin())];
  options.workers = speed.workers;
  options.data_on_device = speed.data_on_device;
  options.steps_per_graph = speed.steps_per_graph;
  options.compile = speed.compile;
  options.passes = speed.passes;
  return options;
}

SpeedRecipe speed_of(const TrainOptions& options) {
  SpeedRecipe speed{.workers = options.workers,
                    .data_on_device = options.data_on_device,
                    .steps_per_graph = options.steps_per_graph,
                    .compile = options.compile,
                    .passes = options.passes};
  for (size_t i = 0; i < kPlaces.size(); ++i)
    if (kPlaces[i] == options.augment_on) speed.augment_on = places_to_augment()[i];
  return speed;
}

}  // namespace brim::train
