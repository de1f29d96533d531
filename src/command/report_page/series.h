// What a chart draws: values over a training, thinned to what a screen can show.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/json_text.h"

namespace brim::command::page {

struct Point {
  double seconds = 0;  ///< of training, pauses between a stop and its resumption left out
  double step = 0;     ///< since the very first one
  double value = 0;
};

using Series = std::vector<Point>;

/// At most about `limit` points: the smallest and the largest of each bucket, and both ends, so a
/// spike of one point stays.
Series thinned(const Series& points, size_t limit);

/// The lines of all charts. Their number is bounded, whatever names a file holds.
class Charts {
 public:
  struct Line {
    std::string chart, label;
    Series points;
  };

  /// Ignores what is no finite number. A line of more points than memory should hold is thinned.
  void add(const std::string& chart, const std::string& label, const Point& at,
           const nlohmann::json* value, double scale = 1);

  const std::vector<Line>& lines() const { return lines_; }

 private:
  std::vector<Line> lines_;
};

}  // namespace brim::command::page
