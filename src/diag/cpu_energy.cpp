#include "diag/cpu_energy.h"

#include <filesystem>
#include <system_error>

#include "diag/machine/kernel_text.h"

namespace brim::diag {
namespace {

namespace fs = std::filesystem;

/// What a file of the kernel's has, but for a negative number.
std::optional<int64_t> count_in(const std::string& path) {
  const std::optional<std::string> text = kernel_text(path, 64);
  const std::optional<int64_t> number = text ? whole_number(*text) : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

CpuEnergy::CpuEnergy(const std::string& root) {
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string zone = it->path().string();
    if (!kernel_text(zone + "/name", 64).value_or("").starts_with("package-"))
      continue;  // a part of one, or more
    const auto range = count_in(zone + "/max_energy_range_uj");
    const auto now = count_in(zone + "/energy_uj");
    if (range && now) packages_.push_back({zone + "/energy_uj", *range, *now});
  }
}

std::optional<double> CpuEnergy::read() {
  if (packages_.empty()) return {};
  for (Package& package : packages_) {
    const auto now = count_in(package.counter);
    if (!now) return {};
    int64_t used = *now - package.last;
    if (used < 0) used += package.range;
    joules_ += static_cast<double>(used) * 1e-6;
    package.last = *now;
  }
  return joules_;
}

}  // namespace brim::diag
