#include "command/frontier_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/report_page/html.h"

namespace brim::command {
namespace {

constexpr double kWidth = 720, kHeight = 440;
constexpr double kLeft = 70, kRight = 690, kTop = 40, kBottom = 385;

/// Numbers for an axis, about five of them, from below the least to above the greatest.
struct Axis {
  double first, step;
  int count;

  Axis(double low, double high) {
    if (!(high > low)) low -= 0.5 * std::max(std::fabs(low), 1.0) * 0.01, high = 2 * high - low;
    if (!(high > low)) high = low + 1;
    const double rough = (high - low) / 4;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
    first = std::floor(low / step) * step;
    count = static_cast<int>(std::ceil((high - first) / step - 1e-9)) + 1;
  }
  double last() const { return first + step * (count - 1); }
  double share(double value) const { return (value - first) / (last() - first); }
};

double x_of(const Axis& axis, double value) { return kLeft + (kRight - kLeft) * axis.share(value); }
double y_of(const Axis& axis, double value) {
  return kBottom - (kBottom - kTop) * axis.share(value);
}

}  // namespace

std::string frontier_svg(const std::vector<FrontierDot>& dots, const std::string& metric,
                         int64_t batch) {
  const auto [fast, slow] = std::ranges::minmax(dots, {}, &FrontierDot::milliseconds);
  const auto [worst, best] = std::ranges::minmax(dots, {}, &FrontierDot::percent);
  const double largest = std::ranges::max(dots, {}, &FrontierDot::bytes).bytes;
  const Axis across(fast.milliseconds, slow.milliseconds);
  const Axis up(worst.percent, best.percent);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  for (int i = 0; i < across.count; ++i) {
    const double value = across.first + i * across.step;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#e0e0e0\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        x_of(across, value), kTop, kBottom, kBottom + 18, std::fabs(value) < 1e-12 ? 0.0 : value);
  }
  for (int i = 0; i < up.count; ++i) {
    const double value = up.first + i * up.step;
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e0e0e0\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, kRight, y_of(up, value), kLeft - 8, y_of(up, value) + 4, value);
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">ms for a batch of {}</text>\n"
      "<text x=\"{}\" y=\"22\">{} in %; areas are the files' bytes</text>\n",
      (kLeft + kRight) / 2, kHeight - 12, batch, kLeft, page::escaped_for_html(metric));
  for (const FrontierDot& dot : dots) {
    const double x = x_of(across, dot.milliseconds), y = y_of(up, dot.percent);
    const double radius = 18 * std::sqrt(dot.bytes / std::max(largest, 1.0));  // areas are bytes
    svg += fmt::format(
        "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"{2:.1f}\" fill=\"{3}\" fill-opacity=\"0.6\" "
        "stroke=\"#303030\"><title>{4}</title></circle>"
        "<text x=\"{0:.1f}\" y=\"{5:.1f}\" text-anchor=\"middle\">{6}</text>\n",
        x, y, std::max(radius, 2.0), dot.is_chosen ? "#e6550d" : "#3182bd",
        page::escaped_for_html(dot.title), y - radius - 5, page::escaped_for_html(dot.label));
  }
  return svg + "</svg>\n";
}

}  // namespace brim::command
