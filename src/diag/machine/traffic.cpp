// Bytes that disks and networks move.
#include <sys/stat.h>

#include <algorithm>

#include "diag/machine/kernel_text.h"
#include "diag/machine/parts.h"

namespace brim::diag {
namespace {

constexpr size_t kMaxNames = 4096;

/// Parts of disks are in /proc/diskstats, too; only whole ones are in /sys/block.
bool is_disk(const MachineRoots& roots, std::string_view name) {
  if (name.empty() || name.starts_with("loop") || name.starts_with("ram")) return false;
  if (name.find('/') != std::string_view::npos || name.starts_with('.')) return false;
  struct stat found {};
  return stat((roots.sys + "/block/" + std::string(name)).c_str(), &found) == 0;
}

}  // namespace

// Documentation/admin-guide/iostats: major minor name, then reads merged sectors ms, writes merged
// sectors ms, in flight, ms busy.
std::vector<DiskReading> DiskReader::read(const MachineRoots& roots, double seconds) {
  constexpr size_t kRead = 2, kWritten = 6, kBusy = 9;
  constexpr double kSector = 512;
  const std::string text = kernel_text(roots.proc + "/diskstats").value_or("");
  std::vector<DiskReading> disks;
  std::map<std::string, Counters, std::less<>> now;
  for (std::string_view left = text; !left.empty() && now.size() < kMaxNames;) {
    std::string_view line = take_line(left);
    take_field(line);
    take_field(line);
    const std::string name(take_field(line));
    const auto n = leading_numbers(line, kBusy + 1);
    if (n.size() <= kBusy || !is_disk(roots, name)) continue;
    const Counters c{.read = n[kRead], .written = n[kWritten], .busy_ms = n[kBusy]};
    if (!now.emplace(name, c).second) continue;
    DiskReading disk{.name = name};
    if (const auto b = before_.find(name); b != before_.end()) {
      disk.read = rate(b->second.read, c.read, seconds) * kSector;
      disk.written = rate(b->second.written, c.written, seconds) * kSector;
      disk.busy = std::min(rate(b->second.busy_ms, c.busy_ms, seconds) * 1e-3, 1.0);
    }
    disks.push_back(std::move(disk));
  }
  before_ = std::move(now);
  return disks;
}

// proc_net(5): two lines of heads, then "name: bytes packets errs drop fifo frame compressed
// multicast bytes ..."
std::vector<NetworkReading> NetworkReader::read(const MachineRoots& roots, double seconds) {
  constexpr size_t kIn = 0, kOut = 8;
  const std::string text = kernel_text(roots.proc + "/net/dev").value_or("");
  std::vector<NetworkReading> networks;
  std::map<std::string, Counters, std::less<>> now;
  for (std::string_view left = text; !left.empty() && now.size() < kMaxNames;) {
    const std::string_view line = take_line(left);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view head = line.substr(0, colon);
    const std::string name(take_field(head));
    const auto n = leading_numbers(line.substr(colon + 1), kOut + 1);
    if (n.size() <= kOut || name.empty() || name == "lo") continue;
    const Counters c{.in = n[kIn], .out = n[kOut]};
    if (!now.emplace(name, c).second) continue;
    NetworkReading network{.name = name};
    if (const auto b = before_.find(name); b != before_.end()) {
      network.in = rate(b->second.in, c.in, seconds);
      network.out = rate(b->second.out, c.out, seconds);
    }
    networks.push_back(std::move(network));
  }
  before_ = std::move(now);
  return networks;
}

}  // namespace brim::diag
