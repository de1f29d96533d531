// The options of the commands that train: what a training is, and how it is run.
#pragma once

#include <string>
#include <vector>

#include <brim/train/trainer.h>

#include "command/arguments.h"
#include "command/train_request.h"

namespace brim::command {

/// Recipe, data, devices, and all that changes speed. `recipe_help`: of the positional argument.
void add_training_options(Arguments args, TrainArguments& o, const char* recipe_help);

/// What these come to; without what a training writes and tells.
train::TrainOptions train_options(const TrainRequest& request);

/// CPU threads and the devices' memory, for this process.
void set_limits(const TrainRequest& request);

/// The request, run as `options` say where they change its speed alone.
TrainRequest with_speed(TrainRequest request, const train::TrainOptions& options);

/// How a training is run, as options of `brim train`, but for those that are as they would be
/// without: {"--workers", "4", "--data-on-device"}.
std::vector<std::string> speed_options(const train::TrainOptions& options);

}  // namespace brim::command
