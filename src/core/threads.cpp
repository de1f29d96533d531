// The CPU budget: affinity mask and cgroup quota (v2 cpu.max, v1 cpu.cfs_quota_us).
#include <brim/core/threads.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

#include "core/check.h"

namespace brim {
namespace {

std::atomic<int> threads{0};  // 0: not set

/// CPUs that the cgroup's quota allows, or 0 when there is none.
int quota_cpus() {
  std::string quota;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period && quota != "max")
    return std::max(1, static_cast<int>(std::stod(quota) / period));
  double quota_us = 0, period_us = 0;
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (q >> quota_us && p >> period_us && quota_us > 0 && period_us > 0)
    return std::max(1, static_cast<int>(quota_us / period_us));
  return 0;
}

}  // namespace

int available_cpus() {
  static const int count = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    int n = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    if (const int quota = quota_cpus()) n = std::min(n, quota);
    return std::max(n, 1);
  }();
  return count;
}

int num_threads() {
  const int n = threads.load(std::memory_order_relaxed);
  return n ? n : available_cpus();
}

void set_num_threads(int count) {
  BRIM_CHECK(count >= 1, ValueError, "[threads] {} threads; use 1 or more", count);
  threads.store(count, std::memory_order_relaxed);
}

}  // namespace brim
