// Named ranges for a profiler that watches this process: one for each span, so for ops, steps and
// whatever else is measured. Spans are seen through their thread's meter, so ranges cost nothing
// where no profiler is.
#pragma once

#include <atomic>

#include <brim/diag/account.h>

namespace brim::diag {

/// What a profiler offers. Ranges of a thread nest.
struct RangeSink {
  void (*push)(const char* name, Cause cause);
  void (*pop)();
};

/// Null while no profiler watches.
extern constinit std::atomic<const RangeSink*> range_sink;

/// From now on `sink`, which lives as long as the process, is told of the spans of this thread, and
/// of each thread while an Accountant measures it.
void show_ranges(const RangeSink& sink);

}  // namespace brim::diag
