// The parts of a machine, a reader each. One that needs the reading before keeps it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "diag/host_load.h"
#include "diag/machine/machine.h"

namespace brim::diag {

class CoreReader {
 public:
  std::vector<CoreReading> read(const MachineRoots& roots, double at);

 private:
  void read_clocks(const MachineRoots& roots);

  std::vector<CoreTime> before_;
  std::unordered_map<int, double> mhz_;
  double clocks_at_ = -1e9;
};

MemoryReading read_memory(const MachineRoots& roots);
/// Bytes that this process can take at most: what is available, and no more than the limit of its
/// cgroup, of which caches take a part that gives way. As many as there can be where nothing is
/// known.
int64_t usable_memory(const MachineRoots& roots = {});

class PressureReader {
 public:
  PressureReading read(const MachineRoots& roots, double seconds);

 private:
  std::map<std::string, uint64_t> before_;  // microseconds
};

class DiskReader {
 public:
  std::vector<DiskReading> read(const MachineRoots& roots, double seconds);

 private:
  struct Counters {
    uint64_t read = 0, written = 0, busy_ms = 0;  // in sectors of 512 bytes
  };
  std::map<std::string, Counters, std::less<>> before_;
};

class NetworkReader {
 public:
  std::vector<NetworkReading> read(const MachineRoots& roots, double seconds);

 private:
  struct Counters {
    uint64_t in = 0, out = 0;
  };
  std::map<std::string, Counters, std::less<>> before_;
};

/// The narrowest limits on the way from the cgroup of this process to the root.
class LimitReader {
 public:
  LimitReading read(const MachineRoots& roots, double seconds);

 private:
  std::optional<uint64_t> throttled_us_;
};

/// The line of /proc/PID/stat, or of a thread's.
struct StatLine {
  std::string name;
  uint64_t cpu_ticks = 0, started = 0;
  int64_t threads = 0, resident_pages = 0;
};
/// Nothing where it is no such line. Names may have blanks and brackets.
std::optional<StatLine> parse_stat_line(std::string_view text);

class ProcessReader {
 public:
  std::vector<ProcessReading> read(const MachineRoots& roots, double seconds);
  std::vector<ThreadReading> read_threads(const MachineRoots& roots, int64_t pid, double seconds);

 private:
  /// What is read once for a process, and its counters of the reading before.
  struct Known {
    uint64_t started = 0, cpu_ticks = 0, read = 0, written = 0;
    int64_t uid = 0;
    std::string name, command;
    bool tells_storage = false;
  };
  using Ticks = std::unordered_map<int64_t, uint64_t>;  // of threads

  void meet(const std::string& folder, const StatLine& line, Known& known);
  void look_into_busiest(const MachineRoots& roots, double seconds,
                         std::vector<ProcessReading>& processes);

  std::unordered_map<int64_t, Known> processes_;
  std::unordered_map<int64_t, Ticks> threads_, threads_before_;  // by process; since a reading
};

}  // namespace brim::diag
