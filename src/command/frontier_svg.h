// A drawing of networks by their time and how well they do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::command {

struct FrontierDot {
  double milliseconds = 0;
  double percent = 0;  ///< of the metric
  double bytes = 0;    ///< which the dot's area shows
  std::string label;   ///< short, beside the dot
  std::string title;   ///< that is shown for it
  bool is_chosen = false;
};

/// An SVG document; `metric` names the vertical axis, `batch` the horizontal one.
std::string frontier_svg(const std::vector<FrontierDot>& dots, const std::string& metric,
                         int64_t batch);

}  // namespace brim::command
