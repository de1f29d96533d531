// What the clocks of two hosts show at one time.
#pragma once

#include <brim/dist/process_group.h>

namespace brim::dist {

/// Seconds that must be added to steady_seconds() of `rank` to have rank 0's: the truth differs by
/// less than half of the quickest message there and back. These two call it; only `rank` gets the
/// answer.
double clock_difference(ProcessGroup& group, int rank);

}  // namespace brim::dist
