// The energy of the CPU's packages, by RAPL's counters (Linux: Documentation/power/powercap).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace brim::diag {

class CpuEnergy {
 public:
  /// `root`: another folder, for tests.
  explicit CpuEnergy(const std::string& root = "/sys/class/powercap");

  /// Joules of all packages since this was made. Empty where there are no counters, or root alone
  /// may read them. To be read now and then: a counter begins anew after some minutes of work.
  std::optional<double> read();

 private:
  struct Package {
    std::string counter;
    int64_t range = 0;  // microjoules at which it begins anew
    int64_t last = 0;
  };
  std::vector<Package> packages_;
  double joules_ = 0;
};

}  // namespace brim::diag
