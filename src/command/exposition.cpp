#include "command/exposition.h"

#include <fmt/format.h>

#include <cmath>

#include "core/printable.h"

namespace brim::command {
namespace {

constexpr std::string_view kTotal = "_total";

/// In UTF-8, with what both formats want escaped in a label's value.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

std::string pairs(const Exposition::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

MetricsFormat format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? MetricsFormat::open_metrics
             : MetricsFormat::prometheus;
}

const char* content_type(MetricsFormat format) {
  return format == MetricsFormat::open_metrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

Exposition::Exposition(MetricsFormat format, Labels common)
    : format_(format), common_(pairs(common)) {}

void Exposition::family(const char* name, MetricKind kind, const char* help) {
  name_ = name;
  std::string_view called = name;
  const char* type = kind == MetricKind::gauge ? "gauge" : "counter";
  if (format_ == MetricsFormat::open_metrics && kind == MetricKind::counter) {
    // Its samples end in _total and the family does not; other names are of no counter.
    if (called.ends_with(kTotal))
      called.remove_suffix(kTotal.size());
    else
      type = "unknown";
  }
  head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", called, help, type);
}

void Exposition::sample(double value, const Labels& labels) {
  text_ += std::exchange(head_, "");
  const std::string own = pairs(labels);
  const char* const between = common_.empty() || own.empty() ? "" : ",";
  if (common_.empty() && own.empty())
    text_ += fmt::format("{} {}\n", name_, number(value));
  else
    text_ += fmt::format("{}{{{}{}{}}} {}\n", name_, common_, between, own, number(value));
}

std::string Exposition::finish() {
  if (format_ == MetricsFormat::open_metrics) text_ += "# EOF\n";
  return std::exchange(text_, "");
}

}  // namespace brim::command
