#include "command/shrink_path.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "command/command.h"
#include "command/format.h"
#include "core/check.h"

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

ShrinkPath::ShrinkPath(const ShrinkState& state, const ShrinkTarget& target)
    : state_(state),
      target_(target),
      frontier_(compress::form_frontier(state.layers, 1 / state.points[0].seconds,
                                        1 / static_cast<double>(state.points[0].bytes))) {
  if (dense().seconds > dense_point().seconds)
    scale_ = dense_point().seconds / dense().seconds;
  else
    rest_s_ = dense_point().seconds - dense().seconds;
  rest_bytes_ = std::max<int64_t>(0, dense_point().bytes - dense().bytes);
}

void ShrinkPath::check_reachable() const {
  BRIM_CHECK(frontier_.size() > 1, ValueError,
             "[shrink] no layer has a form that is faster or smaller on this device");
  const int64_t bytes = compress::form_frontier(state_.layers, 0, 1).back().bytes + rest_bytes_;
  if (target_.bytes && *target_.bytes < bytes)
    raise<ValueError>(
        "[shrink] a size of {}: about {} is the least that forms of layers can reach (dense {})",
        format_bytes(*target_.bytes), format_bytes(bytes), format_bytes(dense_point().bytes));
}

compress::Limits ShrinkPath::limits() const {
  compress::Limits all;
  if (target_.seconds) all.seconds = of_layers(*target_.seconds);
  if (target_.bytes) all.bytes = *target_.bytes - rest_bytes_;
  return all;
}

compress::Choice ShrinkPath::at(double share) const {
  if (target_.is_open()) {
    const auto last = static_cast<double>(frontier_.size() - 1);
    return frontier_[static_cast<size_t>(std::llround(share * last))];
  }
  compress::Limits these = limits();
  const auto between = [share](double first, double last) {
    return first + share * (std::min(first, last) - first);
  };
  if (target_.seconds) these.seconds = between(dense().seconds, these.seconds);
  if (target_.bytes)
    these.bytes =
        std::llround(between(static_cast<double>(dense().bytes), static_cast<double>(these.bytes)));
  return compress::choose_forms(state_.layers, these);
}

std::optional<double> ShrinkPath::next_share(int64_t max_points) const {
  const auto made = static_cast<int64_t>(state_.points.size()) - 1;
  if (made >= max_points) return std::nullopt;
  if (!target_.is_open()) return 1 - static_cast<double>(made) / static_cast<double>(max_points);
  double low = 0, high = 1, share = 1;
  for (int64_t i = 1; i <= made; ++i) {
    const bool is_met = target_.is_met_by(state_.points[static_cast<size_t>(i)], dense_point());
    if (i == 1 && is_met) return std::nullopt;  // the smallest one is good enough
    (is_met ? low : high) = share;
    share = (low + high) / 2;
  }
  return share;
}

double ShrinkPath::cost(double seconds, int64_t bytes) const {
  return seconds / dense_point().seconds +
         static_cast<double>(bytes) / static_cast<double>(dense_point().bytes);
}

ShrinkCandidates::ShrinkCandidates(const ShrinkState& state, const ShrinkTarget& target,
                                   const ShrinkPath& path)
    : state_(state), target_(target), path_(path), limits_(path.limits()) {
  const ShrunkPoint& dense = state.points[0];
  cheapest_ = compress::form_frontier(state.layers, target.seconds ? 1 / dense.seconds : 0,
                                      target.bytes ? 1 / static_cast<double>(dense.bytes) : 0);
}

std::optional<compress::Choice> ShrinkCandidates::next() {
  constexpr int kTightened = 4, kCheapest = 4;
  if (count_ < kTightened) {
    ++count_;
    try {
      return compress::choose_forms(state_.layers, limits_);
    } catch (const ValueError&) {
      count_ = kTightened;  // out of reach by what layers take alone
    }
  }
  if (count_++ >= kTightened + kCheapest || cheapest_.empty()) return std::nullopt;
  compress::Choice choice = std::move(cheapest_.back());
  cheapest_.pop_back();
  return choice;
}

void ShrinkCandidates::tighten(const compress::Choice& choice, const Taken& taken) {
  constexpr double kMargin = 1.2;
  const double late = taken.seconds - target_.seconds.value_or(taken.seconds);
  const double of_layers = choice.seconds - path_.of_layers(path_.predicted_s(choice) - late);
  if (late > 0) limits_.seconds = choice.seconds - kMargin * of_layers;
  const int64_t large = taken.bytes - target_.bytes.value_or(taken.bytes);
  if (large > 0) limits_.bytes = choice.bytes - large;
}

}  // namespace brim::command
