// A search for a smaller network: makes the points on the way to what is wanted, by training and
// integers.
#pragma once

#include <brim/core/device.h>

#include "command/shrink_request.h"

namespace brim::command {

/// From the beginning, or from where it was stopped. Returns the exit status.
int run_search(const ShrinkArguments& o, const ShrinkTarget& target, Device device);

}  // namespace brim::command
