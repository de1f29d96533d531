// Memory, and the pressure on memory, CPUs and storage.
#include <algorithm>
#include <limits>

#include "diag/machine/kernel_text.h"
#include "diag/machine/parts.h"

namespace brim::diag {
namespace {

/// "MemTotal:  1234 kB" in bytes.
int64_t kib_line(std::string_view line) {
  const auto numbers = leading_numbers(line.substr(line.find(':') + 1), 1);
  constexpr uint64_t kMaxKib = std::numeric_limits<int64_t>::max() / 1024;
  return numbers.empty() ? 0 : static_cast<int64_t>(std::min(numbers[0], kMaxKib) * 1024);
}

/// The microseconds that "some ... total=N" tells.
std::optional<uint64_t> stalled(std::string_view text) {
  const std::string_view line = take_line(text);
  const size_t at = line.find("total=");
  if (!line.starts_with("some") || at == std::string_view::npos) return {};
  const auto numbers = leading_numbers(line.substr(at + 6), 1);
  return numbers.empty() ? std::nullopt : std::optional(numbers[0]);
}

}  // namespace

MemoryReading read_memory(const MachineRoots& roots) {
  const std::string text = kernel_text(roots.proc + "/meminfo").value_or("");
  MemoryReading memory;
  int64_t swap_free = 0;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = take_line(left);
    if (line.starts_with("MemTotal:")) memory.total = kib_line(line);
    if (line.starts_with("MemAvailable:")) memory.available = kib_line(line);
    if (line.starts_with("SwapTotal:")) memory.swap_total = kib_line(line);
    if (line.starts_with("SwapFree:")) swap_free = kib_line(line);
  }
  memory.available = std::min(memory.available, memory.total);
  memory.swap_used = std::max<int64_t>(0, memory.swap_total - swap_free);
  return memory;
}

int64_t usable_memory(const MachineRoots& roots) {
  const MemoryReading memory = read_memory(roots);
  const int64_t available =
      memory.total > 0 ? memory.available : std::numeric_limits<int64_t>::max();
  const LimitReading limits = LimitReader().read(roots, 0);
  return std::min(available, limits.memory.value_or(available));
}

PressureReading PressureReader::read(const MachineRoots& roots, double seconds) {
  const auto share = [&](const std::string& name) -> std::optional<double> {
    const auto now = stalled(kernel_text(roots.proc + "/pressure/" + name, 4096).value_or(""));
    if (!now) {
      before_.erase(name);
      return {};
    }
    const auto [known, is_new] = before_.try_emplace(name, *now);
    const double stalled_share = rate(known->second, *now, seconds) * 1e-6;
    known->second = *now;
    if (is_new || seconds <= 0) return {};
    return std::min(stalled_share, 1.0);
  };
  return {.cpu = share("cpu"), .memory = share("memory"), .io = share("io")};
}

}  // namespace brim::diag
