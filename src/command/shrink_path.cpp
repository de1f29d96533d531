#include "command/shrink_path.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "command/format.h"
#include "core/check.h"

namespace brim::command {
ShrinkPath::ShrinkPath(const ShrinkState& state, const ShrinkTarget& target)
    : state_(state), target_(target) {
  for (const ShrunkWidth& width : state.widths) {
    const compress::Choice dense = compress::choice_of(width.layers, {});
    Scale scale;
    if (dense.seconds > width.seconds)
      scale.scale = width.seconds / dense.seconds;
    else
      scale.rest_s = width.seconds - dense.seconds;
    // Layers in other forms take others' work over, as integers do that of batch norm behind them.
    const compress::Choice fastest = compress::choice_of(width.layers, width.fastest_forms());
    const double spared = dense.seconds - fastest.seconds;
    if (const double of_all = width.seconds - width.fastest_s;
        width.fastest_s > 0 && of_all > 0 && spared > 0.05 * dense.seconds) {
      scale.scale = of_all / spared;
      scale.rest_s = width.fastest_s - scale.scale * fastest.seconds;
    }
    scale.rest_bytes = std::max<int64_t>(0, width.bytes - dense.bytes);
    scales_.push_back(scale);
  }
  frontier_ = frontier(1 / dense_point().seconds, 1 / static_cast<double>(dense_point().bytes));
}

PlannedNetwork ShrinkPath::planned(size_t width, compress::Choice choice) const {
  const Scale& scale = scales_[width];
  PlannedNetwork network{.width = width,
                         .choice = {},
                         .seconds = std::max(0.0, choice.seconds * scale.scale + scale.rest_s),
                         .distance = choice.distance + state_.widths[width].distance,
                         .bytes = choice.bytes + scale.rest_bytes};
  network.choice = std::move(choice);
  return network;
}

PlannedNetwork ShrinkPath::planned(size_t width, const compress::LayerForms& forms) const {
  return planned(width, compress::choice_of(state_.widths[width].layers, forms));
}

std::vector<PlannedNetwork> ShrinkPath::frontier(double of_seconds, double of_bytes) const {
  std::vector<PlannedNetwork> all;
  for (size_t i = 0; i < scales_.size(); ++i)
    for (compress::Choice& choice :
         compress::form_frontier(state_.widths[i].layers, of_seconds, of_bytes))
      all.push_back(planned(i, std::move(choice)));
  const auto cost_of = [=](const PlannedNetwork& n) {
    return of_seconds * n.seconds + of_bytes * static_cast<double>(n.bytes);
  };
  std::ranges::stable_sort(all, {}, cost_of);
  std::vector<PlannedNetwork> closest;  // the cheapest first
  for (PlannedNetwork& network : all)
    if (closest.empty() || network.distance < closest.back().distance)
      closest.push_back(std::move(network));
  std::ranges::reverse(closest);
  if (closest[0].distance > 0 || closest[0].width > 0 ||
      !compress::forms_of(state_.widths[0].layers, closest[0].choice).empty())
    closest.insert(closest.begin(), planned(0, compress::LayerForms()));
  return closest;
}

void ShrinkPath::check_reachable() const {
  BRIM_CHECK(frontier_.size() > 1, ValueError,
             "[shrink] no layer has a form that is faster or smaller on this device");
  const int64_t bytes = frontier(0, 1).back().bytes;
  if (target_.bytes && *target_.bytes < bytes)
    raise<ValueError>(
        "[shrink] a size of {}: about {} is the least that forms of layers can reach (dense {})",
        format_bytes(*target_.bytes), format_bytes(bytes), format_bytes(dense_point().bytes));
}

PlannedNetwork ShrinkPath::within(const compress::Limits& limits) const {
  std::optional<PlannedNetwork> best;
  std::string why;
  for (size_t i = 0; i < scales_.size(); ++i) {
    const Scale& scale = scales_[i];
    compress::Limits these = limits;
    if (limits.seconds < compress::Limits().seconds)
      these.seconds = (limits.seconds - scale.rest_s) / scale.scale;
    if (limits.bytes < compress::Limits().bytes) these.bytes = limits.bytes - scale.rest_bytes;
    try {
      PlannedNetwork found = planned(i, compress::choose_forms(state_.widths[i].layers, these));
      if (!best || found.distance < best->distance) best = std::move(found);
    } catch (const ValueError& e) {
      why = e.what();
    }
  }
  if (!best) throw ValueError(why);
  return *std::move(best);
}

PlannedNetwork ShrinkPath::at(double share) const {
  if (target_.is_open()) {
    const auto last = static_cast<double>(frontier_.size() - 1);
    return frontier_[static_cast<size_t>(std::llround(share * last))];
  }
  compress::Limits these;
  const auto between = [share](double first, double last) {
    return first + share * (std::min(first, last) - first);
  };
  if (target_.seconds) these.seconds = between(dense_point().seconds, *target_.seconds);
  if (target_.bytes)
    these.bytes = std::llround(
        between(static_cast<double>(dense_point().bytes), static_cast<double>(*target_.bytes)));
  return within(these);
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
    : target_(target), path_(path) {
  if (target.seconds) limits_.seconds = *target.seconds;
  if (target.bytes) limits_.bytes = *target.bytes;
  const ShrunkPoint& dense = state.points[0];
  cheapest_ = path.frontier(target.seconds ? 1 / dense.seconds : 0,
                            target.bytes ? 1 / static_cast<double>(dense.bytes) : 0);
}

std::optional<PlannedNetwork> ShrinkCandidates::within_limits() {
  try {
    PlannedNetwork network = path_.within(limits_);
    if (!last_ || network.width != last_->width || network.choice.forms != last_->choice.forms)
      return network;
  } catch (const ValueError&) {  // out of reach by what layers take alone
  }
  return std::nullopt;
}

std::optional<PlannedNetwork> ShrinkCandidates::next() {
  constexpr int kTightened = 4, kCheapest = 4, kLoosened = 5;
  std::optional<PlannedNetwork> network;
  if (found_) {
    if (loosened_++ < kLoosened) network = within_limits();
  } else {
    if (tightened_++ < kTightened) network = within_limits();
    if (!network && cheap_++ < kCheapest && !cheapest_.empty()) {
      tightened_ = kTightened;
      network = std::move(cheapest_.back());
      cheapest_.pop_back();
    }
  }
  if (network) last_ = network;
  return network;
}

void ShrinkCandidates::took(const PlannedNetwork& network, const TakenByNetwork& taken) {
  // Of the difference, as times scatter; and of it as a share of what was taken, as predictions may
  // be several times too long.
  constexpr double kIfMissed = 1.2, kIfMet = 0.8, kOfShare = 0.5;
  const auto share_of = [&](const TakenByNetwork& t) {
    return target_.share_of_limits(t.seconds, t.bytes);
  };
  if (!nearest_ || share_of(taken) < share_of(*nearest_)) nearest_ = taken;
  if (share_of(taken) <= 1 && (!found_ || network.distance < found_->distance)) found_ = network;
  if (target_.seconds) {
    const double spare = *target_.seconds - taken.seconds;
    const double as_share = kOfShare * network.seconds * spare / taken.seconds;
    limits_.seconds =
        network.seconds + (spare < 0 ? kIfMissed * spare : std::max(kIfMet * spare, as_share));
  }
  if (target_.bytes) limits_.bytes = network.bytes + *target_.bytes - taken.bytes;
}

}  // namespace brim::command
