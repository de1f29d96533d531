// One timeline of all ranks.
#pragma once

#include <brim/diag/trace.h>
#include <brim/dist/process_group.h>

namespace brim::dist {

/// Passes the events of all ranks' traces, on rank 0's clock, to the sink of rank 0, which alone
/// needs one: JSON as of diag::Trace::write(). All ranks call it, with null where none was
/// recorded; the host waits. Ranks of one host read one clock; for others its difference from rank
/// 0's is taken from the quickest of some messages there and back (Mills, "Internet time
/// synchronization: the Network Time Protocol", 1991), which is off by less than half of what that
/// one took. Throws DistError as collectives do. Returns how many events could not be kept, of all
/// ranks; 0 in others than rank 0.
int64_t write_trace(ProcessGroup& group, const diag::Trace* trace, const diag::TraceSink& sink);

}  // namespace brim::dist
