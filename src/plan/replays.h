// Whether a step runs as a plan, for who has no hold of the one that compiled it.
#pragma once

#include <cstdint>

namespace brim::plan {

/// Steps that plans ran for this thread so far.
int64_t replays_of_thread();

}  // namespace brim::plan
