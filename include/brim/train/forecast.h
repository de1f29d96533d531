// What a recipe's training step would take on devices and links that need not exist.
#pragma once

#include <cstdint>

#include <brim/core/device.h>
#include <brim/dist/links.h>
#include <brim/plan/compile.h>
#include <brim/train/recipe.h>

namespace brim::train {

struct ForecastOptions {
  int64_t batch = 32;  ///< samples of each rank
  int ranks = 1;
  dist::Links links{};
  Device device = Device::cpu();  ///< whose model counts; a virtual one keeps its profile's
  int64_t outputs = 1000;         ///< of the network: classes
  int64_t picture = 224;          ///< width and height, where Recipe::input.size says nothing
  bool overlap = true;            ///< gradients are reduced while others are computed
};

struct Forecast {
  StepForecast step;
  int64_t memory = 0;  ///< bytes of the device: parameters, optimizer, batch and temporaries
};

/// Of a step of a recipe that classifies pictures of three channels: forward, backward, the sum
/// over all ranks, and the update. It is recorded and compiled for the device, not run; the network
/// is made there. Throws ValueError for other tasks and what recipes and links do not allow.
Forecast forecast(const Recipe& recipe, const ForecastOptions& options);

}  // namespace brim::train
