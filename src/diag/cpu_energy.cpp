#include "diag/cpu_energy.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace brim::diag {
namespace {

namespace fs = std::filesystem;

/// A number that is a file's; empty where it has none, or a negative one.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t number = -1;
  if (!(in >> number) || number < 0) return {};
  return number;
}

std::string word_in(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

}  // namespace

CpuEnergy::CpuEnergy(const std::string& root) {
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string zone = it->path().string();
    if (!word_in(zone + "/name").starts_with("package-")) continue;  // a part of one, or more
    const auto range = number_in(zone + "/max_energy_range_uj");
    const auto now = number_in(zone + "/energy_uj");
    if (range && now) packages_.push_back({zone + "/energy_uj", *range, *now});
  }
}

std::optional<double> CpuEnergy::read() {
  if (packages_.empty()) return {};
  for (Package& package : packages_) {
    const auto now = number_in(package.counter);
    if (!now) return {};
    int64_t used = *now - package.last;
    if (used < 0) used += package.range;
    joules_ += static_cast<double>(used) * 1e-6;
    package.last = *now;
  }
  return joules_;
}

}  // namespace brim::diag
