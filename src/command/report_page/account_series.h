// Where the time went between two reports: differences of the cumulative account of a device.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command/report_page/series.h"

namespace brim::command::page {

struct Stretch {
  Point begin, end;
  std::map<std::string, double> seconds;  ///< by cause

  double wall() const;
};

class AccountSeries {
 public:
  /// `account`: {"wall": .., "seconds": {..}}. `anew`: another process writes, whose account began
  /// with it at `begin`.
  void add(const Point& begin, const Point& end, const nlohmann::json& account, bool anew);

  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Of all processes together.
  std::map<std::string, double> total() const;

 private:
  std::map<std::string, double> last_;
  std::vector<Stretch> stretches_;
};

/// At most `limit`: neighbours are added up.
std::vector<Stretch> merged(const std::vector<Stretch>& stretches, size_t limit);

struct WorstStretch {
  const Stretch* stretch = nullptr;
  std::string cause;
  double share = 0;
};

/// The stretches in which a cause that is no computation took the largest share, the worst first.
std::vector<WorstStretch> worst(const std::vector<Stretch>& stretches, size_t limit);

}  // namespace brim::command::page
