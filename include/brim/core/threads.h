// How many CPU threads the ops of this process use.
#pragma once

namespace brim {

/// CPUs this process may use: the affinity mask, cut by the cgroup's quota. At least 1.
int available_cpus();
/// Threads per op; available_cpus() unless set.
int num_threads();
/// Throws ValueError below 1.
void set_num_threads(int count);

}  // namespace brim
