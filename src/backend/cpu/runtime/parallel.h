// Splits a range over the CPU's threads. Work below the grain runs in the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include <brim/core/threads.h>

#include "backend/cpu/runtime/thread_pool.h"

namespace brim::cpu {

/// Calls body(begin, end) on disjoint parts that cover [0, n), each at least `grain` long where n
/// allows. Bodies run concurrently; what one throws is thrown here (see run_parts). The split
/// depends on n, grain and num_threads(): a result that must not depend on the threads may not
/// depend on the split.
template <class Body>
void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  const int threads = num_threads();
  // A few parts per thread, so that a late thread costs little.
  const int64_t parts = std::min<int64_t>(4 * threads, n / std::max<int64_t>(grain, 1));
  if (threads <= 1 || parts <= 1 || in_parallel_loop()) return body(int64_t{0}, n);
  struct Job {
    const Body& body;
    int64_t n, parts;
  };
  const Job job{body, n, parts};
  run_parts(
      parts, threads,
      [](const void* context, int64_t part) {
        const Job& j = *static_cast<const Job*>(context);
        const int64_t begin = j.n * part / j.parts, end = j.n * (part + 1) / j.parts;
        if (begin < end) j.body(begin, end);
      },
      &job);
}

}  // namespace brim::cpu
