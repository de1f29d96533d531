#include "diag/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "core/clock.h"

namespace brim::diag {
namespace {

std::string text_of(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

// proc(5): user nice system idle iowait irq softirq steal guest guest_nice; guests are in user.
std::vector<CoreTime> core_times(std::string_view proc_stat) {
  constexpr int kUser = 0, kNice = 1, kIdle = 3, kIoWait = 4, kSteal = 7, kCounted = 8;
  std::vector<CoreTime> cores;
  std::istringstream lines{std::string(proc_stat)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] < '0' || line[3] > '9') continue;
    std::istringstream numbers(line.substr(line.find(' ')));
    CoreTime core;
    std::from_chars(line.data() + 3, line.data() + line.size(), core.index);
    uint64_t n = 0;
    for (int i = 0; i < kCounted && numbers >> n; ++i) {
      core.all += n;
      if (i == kIoWait) core.wait = n;
      if (i == kIdle || i == kIoWait) continue;
      core.busy += n;
      (i == kUser || i == kNice ? core.user : i == kSteal ? core.steal : core.system) += n;
    }
    cores.push_back(core);
  }
  return cores;
}

std::vector<double> loads(const std::vector<CoreTime>& before, const std::vector<CoreTime>& after) {
  std::vector<double> result(std::min(before.size(), after.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const double all = static_cast<double>(after[i].all) - static_cast<double>(before[i].all);
    const double busy = static_cast<double>(after[i].busy) - static_cast<double>(before[i].busy);
    result[i] = all > 0 ? std::clamp(busy / all, 0.0, 1.0) : 0;
  }
  return result;
}

HostLoad::HostLoad()
    : cores_(core_times(text_of("/proc/stat"))),
      process_seconds_(process_seconds()),
      at_(steady_seconds()) {}

HostReading HostLoad::read() {
  HostReading reading;
  std::vector<CoreTime> cores = core_times(text_of("/proc/stat"));
  reading.core_load = loads(cores_, cores);
  cores_ = std::move(cores);
  const double at = steady_seconds(), process = process_seconds();
  reading.process_cores = (process - process_seconds_) / std::max(at - at_, 1e-9);
  at_ = at;
  process_seconds_ = process;
  std::istringstream pages(text_of("/proc/self/statm"));
  int64_t size = 0, resident = 0;
  if (pages >> size >> resident) reading.resident = resident * sysconf(_SC_PAGESIZE);
  return reading;
}

}  // namespace brim::diag
