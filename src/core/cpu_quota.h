// The quota of CPU time that cgroups set. Needs the C library alone: the runtime of engines has
// it, too.
#pragma once

namespace brim {

/// Cores whose time the cgroups of this process allow, its own and those above it, as 1.5; 0 where
/// none sets a quota. Reads cpu.max (version 2), or cpu.cfs_quota_us and cpu.cfs_period_us
/// (version 1), below sys/fs/cgroup at the paths that proc/self/cgroup names; in a container, where
/// the path may lie outside of what is mounted, at the root alone. Allocates nothing.
double cpu_quota(const char* proc = "/proc", const char* sys = "/sys");

/// Threads that fit a quota: it as a whole number, rounded down but at least 1, or `cores` where
/// that is less or there is no quota.
int threads_within(double quota, int cores);

}  // namespace brim
