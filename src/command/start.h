// When this process started, for the time to the first step.
#pragma once

namespace brim::command {

/// Called first in main, and by who begins anew.
void mark_start();

/// Milliseconds since the process started; what ran before main (loading the libraries) counts with
/// its CPU time.
double milliseconds_since_start();

}  // namespace brim::command
