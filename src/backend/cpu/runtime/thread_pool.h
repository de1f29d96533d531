// The threads behind CPU kernels. A parallel loop is cut into parts that any thread may take, the
// caller included: when the others are late, or the machine is busy, the caller does their work
// instead of waiting for them. Idle threads spin for some microseconds, then sleep.
#pragma once

#include <cstdint>

namespace brim::cpu {

/// Calls body(context, part) once for each part in [0, parts), in any order, on up to `threads`
/// threads. Runs in the calling thread alone inside another parallel loop, or while another thread
/// has the pool. What the body throws first is thrown here, once no part runs any more; parts that
/// have not begun by then are left out.
void run_parts(int64_t parts, int threads, void (*body)(const void* context, int64_t part),
               const void* context);

/// Whether the calling thread is working on a part: further loops would run in it alone.
bool in_parallel_loop();

}  // namespace brim::cpu
