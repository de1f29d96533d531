// The CPU's threads, for kernels.
#pragma once

#include <cstdint>
#include <functional>

namespace brim::extend {

/// Calls body(begin, end) on disjoint parts that cover [0, n), each at least `grain` long where n
/// allows, on num_threads() threads; what a body throws is thrown here. About 10 us of work are
/// worth a thread. A result must not depend on where the parts end.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace brim::extend
