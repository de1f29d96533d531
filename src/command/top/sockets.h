// Asks the user's running trainings what they do, by the sockets in the runtime folder.
#pragma once

#include <string>
#include <vector>

#include "command/top/run.h"

namespace brim::top {

/// What every training in `folder` answers, in the order of process numbers. One that gives no
/// document within `seconds` has `trouble` and its process number only. A folder that is missing,
/// or belongs to, or may be written to by, somebody else has none. Sockets of dead processes are
/// removed. Throws nothing but std::bad_alloc.
std::vector<Run> ask_runs(const std::string& folder, double seconds = 0.2);

}  // namespace brim::top
