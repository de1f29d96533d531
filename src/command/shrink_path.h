// What `brim shrink` is to find, and the way there: from the dense network to one within the
// limits, or to the smallest one.
#pragma once

#include <brim/compress/shrink.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/shrink_request.h"
#include "command/shrink_state.h"

namespace brim::command {

/// A network that may be made.
struct PlannedNetwork {
  size_t width = 0;  ///< of ShrinkState::widths
  compress::Choice choice;
  double seconds = 0;   ///< of a pass, as predicted
  double distance = 0;  ///< of the width, and of its layers' forms
  int64_t bytes = 0;    ///< of its file, as predicted
};

/// By what was measured, which is kept by reference: the widths, their layers and the dense
/// network.
class ShrinkPath {
 public:
  ShrinkPath(const ShrinkState& state, const ShrinkTarget& target);

  /// Throws ValueError where no layer has another form, or none of them takes so few bytes.
  void check_reachable() const;
  /// Of all widths, from the dense network to the one that costs least by these weights: each is
  /// the closest one of its cost.
  std::vector<PlannedNetwork> frontier(double of_seconds, double of_bytes) const;
  /// The closest one within limits of a pass and a file. Throws ValueError where there is none.
  PlannedNetwork within(const compress::Limits& limits) const;
  PlannedNetwork planned(size_t width, const compress::LayerForms& forms) const;
  /// The one at a share of the way: with limits of what is to be spared, else of the frontier.
  PlannedNetwork at(double share) const;
  /// Where the next point is: with limits those first, then gentler ones; else the smallest
  /// network, and then halves of the way to where the accuracy is just kept. Empty: that is all.
  std::optional<double> next_share(int64_t max_points) const;
  /// Time and bytes of a network, each as a share of the dense one's.
  double cost(double seconds, int64_t bytes) const;

 private:
  /// Layers one by one may take more than together; what they do not take is of others.
  struct Scale {
    double scale = 1, rest_s = 0;
    int64_t rest_bytes = 0;
  };
  const ShrunkPoint& dense_point() const { return state_.points[0]; }
  PlannedNetwork planned(size_t width, compress::Choice choice) const;

  const ShrinkState& state_;
  const ShrinkTarget& target_;
  std::vector<Scale> scales_;             // of the widths
  std::vector<PlannedNetwork> frontier_;  // of time and bytes alike
};

/// What a whole network takes.
struct TakenByNetwork {
  double seconds;
  int64_t bytes;
};

/// Networks to be tried for limits: what a whole network takes is no sum of its layers', so the
/// next one is chosen by what the ones before took. Limits are tightened where they were missed; if
/// that leads nowhere the cheapest networks are tried; and what one that meets them leaves of them
/// is used for a closer one.
class ShrinkCandidates {
 public:
  /// All are kept by reference.
  ShrinkCandidates(const ShrinkState& state, const ShrinkTarget& target, const ShrinkPath& path);
  /// Empty: there are no more.
  std::optional<PlannedNetwork> next();
  /// Of the network that next() gave.
  void took(const PlannedNetwork& network, const TakenByNetwork& taken);
  /// The closest one of those that meet the limits.
  const std::optional<PlannedNetwork>& found() const { return found_; }
  /// What was taken by the one that missed them least; empty before the first one.
  const std::optional<TakenByNetwork>& nearest() const { return nearest_; }

 private:
  /// Within limits as they are now, if that is another one than the last.
  std::optional<PlannedNetwork> within_limits();

  const ShrinkTarget& target_;
  const ShrinkPath& path_;
  compress::Limits limits_;
  std::vector<PlannedNetwork> cheapest_;  // the last one is the cheapest
  std::optional<PlannedNetwork> last_, found_;
  std::optional<TakenByNetwork> nearest_;
  int tightened_ = 0, cheap_ = 0, loosened_ = 0;
};

}  // namespace brim::command
