// The load of the host's CPUs, from what Linux counts in /proc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <brim/diag/monitor.h>

namespace brim::diag {

/// Time that a CPU has spent since the machine was started, in the kernel's ticks.
struct CoreTime {
  uint64_t busy = 0, all = 0;
  uint64_t user = 0, system = 0;  ///< of busy: programs; the kernel, with interrupts
  uint64_t wait = 0;              ///< not busy, while a disk was waited for
  uint64_t steal = 0;             ///< of busy: other machines had the core
  int index = 0;                  ///< N of its line "cpuN"
};
/// The "cpuN" lines of /proc/stat's text.
std::vector<CoreTime> core_times(std::string_view proc_stat);
/// The share of the time between that each CPU was busy; of those that both know.
std::vector<double> loads(const std::vector<CoreTime>& before, const std::vector<CoreTime>& after);

class HostLoad {
 public:
  HostLoad();
  /// Since the last call, or the start.
  HostReading read();

 private:
  std::vector<CoreTime> cores_;
  double process_seconds_ = 0, at_ = 0;
};

}  // namespace brim::diag
