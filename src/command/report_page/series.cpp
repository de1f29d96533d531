#include "command/report_page/series.h"

#include <algorithm>
#include <cmath>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxLines = 200;
/// A day with two readings a second.
constexpr size_t kMaxHeld = 200000;

}  // namespace

Series thinned(const Series& points, size_t limit) {
  if (points.size() <= std::max<size_t>(limit, 4)) return points;
  const size_t buckets = std::max<size_t>(limit / 2, 2) - 1;
  const size_t inner = points.size() - 2;
  Series kept = {points.front()};
  for (size_t b = 0; b < buckets; ++b) {
    const auto begin = points.begin() + 1 + static_cast<ptrdiff_t>(inner * b / buckets);
    const auto end = points.begin() + 1 + static_cast<ptrdiff_t>(inner * (b + 1) / buckets);
    if (begin == end) continue;
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point& x, const Point& y) { return x.value < y.value; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  kept.push_back(points.back());
  return kept;
}

void Charts::add(const std::string& chart, const std::string& label, const Point& at,
                 const nlohmann::json* value, double scale) {
  const std::optional<double> number = finite_number(value);
  if (!number) return;
  const auto found = std::ranges::find_if(
      lines_, [&](const Line& line) { return line.chart == chart && line.label == label; });
  if (found == lines_.end() && lines_.size() == kMaxLines) return;
  Line& line = found == lines_.end() ? lines_.emplace_back(Line{chart, label, {}}) : *found;
  if (line.points.size() == kMaxHeld) line.points = thinned(line.points, kMaxHeld / 2);
  line.points.push_back({at.seconds, at.step, *number * scale});
}

}  // namespace brim::command::page
