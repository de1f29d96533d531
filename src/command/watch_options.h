// The options of commands that train by which others may watch them.
#pragma once

#include <string>

#include "command/arguments.h"

namespace brim::command {

struct WatchArguments {
  std::string tensorboard, metrics, metrics_token;
  double monitor = 1;
};

void add_watch_options(Arguments args, WatchArguments& o);

/// Throws UsageError for what cannot be meant.
void check_watch_options(const WatchArguments& o);

}  // namespace brim::command
