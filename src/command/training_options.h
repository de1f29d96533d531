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

/// The request with what the doctor has found.
TrainRequest with_setting(TrainRequest request, const train::TrainSetting& setting);

/// What makes `speed` of what a recipe says, as options of `brim train`: {"--workers", "4"}.
std::vector<std::string> speed_options(const train::SpeedRecipe& speed,
                                       const train::SpeedRecipe& without = {});

}  // namespace brim::command
