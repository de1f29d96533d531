// The CPU budget: affinity mask and cgroup quota.
#include <brim/core/threads.h>

#include <sched.h>

#include <atomic>

#include "core/check.h"
#include "core/cpu_quota.h"

namespace brim {
namespace {

std::atomic<int> threads{0};  // 0: not set

}  // namespace

int available_cpus() {
  static const int count = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    const int n = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    return threads_within(cpu_quota(), n);
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
