// Limits of cgroups, of version 2 (one tree) and 1 (a tree for each resource).
#include <algorithm>

#include "core/cpu_quota.h"
#include "diag/machine/kernel_text.h"
#include "diag/machine/parts.h"

namespace brim::diag {
namespace {

/// Calls `visit` with each folder from `path` below `tree` up to `tree`. In a container the path
/// may lie outside of what is mounted; then only the root is there.
template <class F>
void up_to_root(const std::string& tree, std::string_view path, const F& visit) {
  if (path.find("..") != std::string_view::npos) path = {};
  while (true) {
    while (path.ends_with('/')) path.remove_suffix(1);
    visit(tree + std::string(path));
    if (path.empty()) return;
    path = path.substr(0, std::min(path.rfind('/'), path.size() - 1));
  }
}

std::optional<int64_t> number_in(const std::string& path) {
  const auto text = kernel_text(path, 64);
  return text ? whole_number(*text) : std::nullopt;
}

/// `used` is read where the limit is.
void limit_memory(LimitReading& limits, const std::string& limit, const std::string& used) {
  constexpr int64_t kNone = int64_t{1} << 60;  // version 1 says "none" with a number near 2^63
  const auto bytes = number_in(limit);
  if (!bytes || *bytes <= 0 || *bytes >= kNone || *bytes >= limits.memory.value_or(kNone)) return;
  limits.memory = bytes;
  limits.memory_used = number_in(used);
}

/// Adds what a cgroup's cpu.stat says of its quota: microseconds of version 2, or nanoseconds.
void add_throttled(std::optional<uint64_t>& us, const std::string& folder) {
  const std::string text = kernel_text(folder + "/cpu.stat", 1 << 12).value_or("");
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = take_line(left);
    const std::string_view name = take_field(line);
    if (name != "throttled_usec" && name != "throttled_time") continue;
    const auto value = static_cast<uint64_t>(std::max(whole_number(line).value_or(0), int64_t{0}));
    us = us.value_or(0) + (name == "throttled_usec" ? value : value / 1000);
  }
}

}  // namespace

LimitReading LimitReader::read(const MachineRoots& roots, double seconds) {
  LimitReading limits;
  if (const double cpus = cpu_quota(roots.proc.c_str(), roots.sys.c_str()); cpus > 0)
    limits.cpus = cpus;
  std::optional<uint64_t> throttled_us;
  const std::string text = kernel_text(roots.proc + "/self/cgroup", 1 << 16).value_or("");
  const std::string tree = roots.sys + "/fs/cgroup";
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = take_line(left);  // "ID:CONTROLLERS:PATH"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers =
        "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string_view path = line.substr(second + 1);
    if (controllers == ",,")
      up_to_root(tree, path, [&](const std::string& folder) {
        limit_memory(limits, folder + "/memory.max", folder + "/memory.current");
        add_throttled(throttled_us, folder);
      });
    if (controllers.find(",cpu,") != std::string::npos)
      up_to_root(tree + "/cpu", path,
                 [&](const std::string& folder) { add_throttled(throttled_us, folder); });
    if (controllers.find(",memory,") != std::string::npos)
      up_to_root(tree + "/memory", path, [&](const std::string& folder) {
        limit_memory(limits, folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes");
      });
  }
  if (throttled_us && throttled_us_ && seconds > 0)
    limits.throttled = 1e-6 * rate(*throttled_us_, *throttled_us, seconds);
  throttled_us_ = throttled_us;
  return limits;
}

}  // namespace brim::diag
