// The option --data of commands that train or evaluate.
#pragma once

#include <string>

#include "command/command.h"

namespace brim::command {

/// Adds it; `value` stays empty where the recipe's data is meant.
void add_data_option(Arguments args, std::string& value);

}  // namespace brim::command
