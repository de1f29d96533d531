// Fits a program into the memory that there is: what has no room is moved to pinned memory of the
// host and back, or computed again (fit.h chooses).
#pragma once

#include <cstdint>
#include <string>

#include "plan/program.h"

namespace brim::plan {

/// Bytes that the arena could have: free ones and those that the allocator keeps, within its limit,
/// but for what the plan needs besides.
int64_t room_of(const Program& program);
/// Whether the temporaries have room as they are.
bool fits(const Program& program);
/// As Program::may_offload and may_recompute allow. Between plans of one device that take turns,
/// each has all of the room. Returns what it did in one line.
std::string fit(Program& program);

}  // namespace brim::plan
