// The machine between two moments: cores, memory, pressure, disks, networks, limits, processes;
// what Linux tells of them in /proc and /sys. What a machine does not tell is empty, and text that
// is damaged counts as not told.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace brim::diag {

/// Shares of the time since the reading before.
struct CoreReading {
  int index = 0;
  double user = 0, system = 0;  ///< programs; the kernel, with interrupts
  double wait = 0;              ///< idle, while a disk was waited for
  double steal = 0;             ///< another machine had the core
  std::optional<double> mhz;

  double busy() const { return user + system + steal; }
};

struct MemoryReading {
  int64_t total = 0, available = 0, swap_total = 0, swap_used = 0;  ///< bytes
};

/// Shares of the time in which some task waited for it (the kernel's PSI).
struct PressureReading {
  std::optional<double> cpu, memory, io;
};

struct DiskReading {
  std::string name;
  double read = 0, written = 0;  ///< bytes/s
  double busy = 0;               ///< share of the time
};

struct NetworkReading {
  std::string name;
  double in = 0, out = 0;  ///< bytes/s
};

/// What the cgroup of this process allows.
struct LimitReading {
  std::optional<double> cpus;
  /// Cores for whose time the quota held back threads that were ready.
  std::optional<double> throttled;
  std::optional<int64_t> memory, memory_used;  ///< bytes
};

struct ThreadReading {
  int64_t tid = 0;
  std::string name;
  double cores = 0;
};

struct ProcessReading {
  int64_t pid = 0, uid = 0;
  std::string name;     ///< as the kernel calls it, of at most 15 bytes
  std::string command;  ///< words separated by spaces; empty for the kernel's own threads
  double cores = 0;     ///< CPU time a second: 2 is two cores all the time
  int64_t threads = 0, resident = 0;    ///< resident: bytes
  std::optional<double> read, written;  ///< bytes/s of storage, where we may know
  /// Its thread that takes most CPU time; of the few busiest processes.
  std::optional<ThreadReading> busiest;
};

struct MachineReading {
  double seconds =
      0;  ///< since the reading before, of which shares and rates are; 0: there is none
  std::vector<CoreReading> cores;
  MemoryReading memory;
  PressureReading pressure;
  std::vector<DiskReading> disks;
  std::vector<NetworkReading> networks;
  LimitReading limits;
  std::vector<ProcessReading> processes;  ///< in the order of their numbers
  int64_t watched = 0;                    ///< the process that `threads` is of; 0: none
  std::vector<ThreadReading> threads;
};

/// Where the kernel's trees are; others in tests.
struct MachineRoots {
  std::string proc = "/proc", sys = "/sys";
};

/// Reads the machine. Not from two threads at once.
class MachineReader {
 public:
  explicit MachineReader(MachineRoots roots = {});
  ~MachineReader();
  MachineReader(const MachineReader&) = delete;
  MachineReader& operator=(const MachineReader&) = delete;

  /// `at`: now, in seconds of a clock that only goes on. The first reading has no shares and rates.
  /// `watched`: the process whose threads are read as well; 0: none.
  MachineReading read(double at, int64_t watched = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brim::diag
