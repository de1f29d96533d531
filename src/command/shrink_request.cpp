#include "command/shrink_request.h"

#include <brim/compress/prune.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "command/command.h"
#include "command/format.h"

namespace brim::command {
namespace {

double parse_latency(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const std::string unit(at, end);
  const double factor = unit == "ns"   ? 1e-9
                        : unit == "us" ? 1e-6
                        : unit == "ms" ? 1e-3
                        : unit == "s"  ? 1
                                       : 0;
  if (error != std::errc() || factor == 0 || !(value > 0 && value < 1e9))
    throw UsageError(
        fmt::format("--latency '{}' is no time; write for example 3ms or 250us", text));
  return value * factor;
}

}  // namespace

ShrinkTarget ShrinkTarget::parse(const std::string& latency, const std::string& size,
                                 std::optional<double> accuracy) {
  ShrinkTarget target;
  if (!latency.empty()) target.seconds = parse_latency(latency);
  if (!size.empty()) target.bytes = parse_bytes(size, "--size");
  if (accuracy) target.loss_of_metric = std::fabs(*accuracy) / 100;
  if (target.is_open() && !target.loss_of_metric)
    throw UsageError(
        "what is wanted? Give --latency 3ms, --size 500k or --accuracy -0.5, or several of them");
  return target;
}

bool ShrinkTarget::is_met_by(const ShrunkPoint& point, const ShrunkPoint& dense) const {
  constexpr double kRounding = 1e-9;
  return point.seconds <= seconds.value_or(point.seconds) &&
         point.bytes <= bytes.value_or(point.bytes) &&
         (!loss_of_metric || point.metric >= dense.metric - *loss_of_metric - kRounding);
}

double ShrinkTarget::share_of_limits(double taken_s, int64_t taken_bytes) const {
  double share = 0;
  if (seconds) share = std::max(share, taken_s / *seconds);
  if (bytes)
    share = std::max(share, static_cast<double>(taken_bytes) / static_cast<double>(*bytes));
  return share;
}

ShrinkPatterns ShrinkPatterns::parse(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  ShrinkPatterns all{.channels = false, .prunes_vectors = false};
  for (const std::string& text : patterns) {
    if (text == "none" && patterns.size() == 1) continue;
    if (text == "channels") {
      all.channels = true;
      continue;
    }
    const bool is_vector = text.starts_with("vector:");
    if (!is_vector || all.prunes_vectors)
      throw UsageError(fmt::format(
          "--pattern {}: {}; write channels, one of vector:4 to vector:64, both, or none", text,
          is_vector ? "one length of vectors is searched"
                    : "only channels and vectors are faster"));
    all.vector = compress::parse_pattern(text).length;
    all.prunes_vectors = true;
  }
  return all;
}

}  // namespace brim::command
