// What `brim train` is asked for: as it is typed, and as it is meant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <brim/dist/launch.h>
#include <brim/train/doctor.h>
#include <brim/train/trainer.h>

#include "command/device_option.h"
#include "command/watch_options.h"
#include "train/run_state.h"

namespace brim::command {

struct TrainArguments : WatchArguments {
  std::string recipe, data, device = "auto", workers, out, resume, weights, teacher, memory_limit,
                            host_limit, json, trace;
  std::string checkpoint_every = "60s";
  std::string compile, passes, precision, augment_on;
  std::optional<bool> data_on_device;
  bool sync_batch_norm = false, shard_checkpoints = false;
  bool doctor = false;
  bool explain = false;
  std::optional<int64_t> epochs, batch, steps, virtual_ranks, steps_per_graph;
  std::optional<double> lr, max_temperature;
  std::optional<uint64_t> seed;
  int threads = 0;
  int64_t keep = 2;
  std::string repeated;  // options that a resumed run needs again, as typed

  /// Where the run's files are; empty if it keeps none.
  const std::string& folder() const { return out.empty() ? resume : out; }
};

/// A run whose options were checked, and whose data and network were not touched yet.
struct TrainRequest {
  TrainArguments arguments;
  train::Recipe recipe;          ///< with what was asked for
  train::SpeedRecipe of_recipe;  ///< what the recipe says by itself
  train::CheckpointOptions checkpoint = {.background = true};
  ChosenDevices chosen;
  dist::LaunchEnvironment launched;
  bool traces = false;  ///< with a rank that another one writes the file of, too
  /// What --doctor found, and asked for besides; null without.
  std::shared_ptr<const train::Cure> cure;
};

/// Throws UsageError, ValueError, FileError or DeviceError for what cannot be meant.
TrainRequest parse_request(const TrainArguments& arguments);

}  // namespace brim::command
