// Cores: shares of the ticks in /proc/stat, clocks from cpufreq, else from /proc/cpuinfo.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "diag/machine/kernel_text.h"
#include "diag/machine/parts.h"

namespace brim::diag {
namespace {

/// A core interrupts its work to tell its clock.
constexpr double kClockSeconds = 2;

CoreReading shares(const CoreTime& before, const CoreTime& after) {
  CoreReading core{.index = after.index};
  const double all = static_cast<double>(after.all) - static_cast<double>(before.all);
  if (all <= 0) return core;
  const auto share = [&](uint64_t CoreTime::*part) {
    const double gained = static_cast<double>(after.*part) - static_cast<double>(before.*part);
    return std::clamp(gained / all, 0.0, 1.0);
  };
  core.user = share(&CoreTime::user);
  core.system = share(&CoreTime::system);
  core.wait = share(&CoreTime::wait);
  core.steal = share(&CoreTime::steal);
  return core;
}

std::unordered_map<int, double> clocks_of_cpuinfo(std::string_view text) {
  std::unordered_map<int, double> clocks;
  int64_t core = -1;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    if (line.starts_with("processor")) {
      core = whole_number(value).value_or(-1);
    } else if (line.starts_with("cpu MHz") && core >= 0 && core < 1 << 20) {
      const std::string_view word = take_field(value);
      double mhz = 0;
      if (std::from_chars(word.data(), word.data() + word.size(), mhz).ec == std::errc())
        clocks[static_cast<int>(core)] = mhz;
    }
  }
  return clocks;
}

bool is_clock(double mhz) { return mhz > 0 && mhz < 1e6; }

}  // namespace

void CoreReader::read_clocks(const MachineRoots& roots) {
  mhz_.clear();
  for (const CoreTime& core : before_) {
    const auto text = kernel_text(
        fmt::format("{}/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", roots.sys, core.index),
        64);
    const auto khz = text ? whole_number(*text) : std::nullopt;
    if (!khz) break;
    mhz_[core.index] = static_cast<double>(*khz) * 1e-3;
  }
  if (mhz_.empty()) mhz_ = clocks_of_cpuinfo(kernel_text(roots.proc + "/cpuinfo").value_or(""));
  std::erase_if(mhz_, [](const auto& clock) { return !is_clock(clock.second); });
}

std::vector<CoreReading> CoreReader::read(const MachineRoots& roots, double at) {
  std::vector<CoreTime> now = core_times(kernel_text(roots.proc + "/stat").value_or(""));
  std::unordered_map<int, const CoreTime*> before;
  for (const CoreTime& core : before_) before[core.index] = &core;
  std::vector<CoreReading> cores;
  cores.reserve(now.size());
  for (const CoreTime& core : now) {
    const auto found = before.find(core.index);
    cores.push_back(found == before.end() ? CoreReading{.index = core.index}
                                          : shares(*found->second, core));
  }
  before_ = std::move(now);
  if (at - clocks_at_ >= kClockSeconds) {
    read_clocks(roots);
    clocks_at_ = at;
  }
  for (CoreReading& core : cores)
    if (const auto clock = mhz_.find(core.index); clock != mhz_.end()) core.mhz = clock->second;
  return cores;
}

}  // namespace brim::diag
