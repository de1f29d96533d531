// What a recipe's training step would take on devices and links that need not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <brim/core/device.h>
#include <brim/dist/links.h>
#include <brim/plan/compile.h>
#include <brim/plan/memory_fit.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// Options of forecast().
struct ForecastOptions {
  int64_t batch = 32;             ///< samples of each rank
  int ranks = 1;                  ///< devices that share each batch, one for each rank
  dist::Links links{};            ///< between them
  Device device = Device::cpu();  ///< whose model counts; a virtual one keeps its profile's
  int64_t outputs = 1000;         ///< of the network: classes
  int64_t picture = 224;          ///< width and height, where Recipe::input.size says nothing
  bool overlap = true;            ///< gradients are reduced while others are computed
  int64_t memory_limit = 0;       ///< bytes of the device for all of it; 0: what it has
  std::string passes = {};        ///< as CompileOptions::passes
};

/// What a training step would take.
struct Forecast {
  StepForecast step;   ///< its times
  int64_t memory = 0;  ///< bytes of the device: parameters, optimizer, batch and temporaries
  std::optional<MemoryFit> fit;  ///< how these were fitted into its memory; empty: they fit
  double copy = 0;    ///< seconds in which a batch of floats comes from the host, a step ahead
  double launch = 0;  ///< seconds of the host's time to launch the step
  double seconds_per_step =
      0;              ///< of a training that its input keeps up with: the longest of these
  double energy = 0;  ///< joules of a step, of all ranks
};

/// Of a step of a recipe that classifies pictures of three channels: forward, backward, the sum
/// over all ranks, the update, and the sum of losses. It is recorded and compiled for the device,
/// not run; the network is made there. Links to the host, launches and power are those of a virtual
/// device's profile, and 0 without one. Throws ValueError for other tasks and what recipes and
/// links do not allow, OutOfMemory where weights, optimizer and batch alone do not fit.
Forecast forecast(const Recipe& recipe, const ForecastOptions& options);

}  // namespace brim::train
