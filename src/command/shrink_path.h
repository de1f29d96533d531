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

/// Networks that may meet the limits: with limits tightened by what the ones before missed, and
/// then the cheapest.
class ShrinkCandidates {
 public:
  /// What a whole network takes.
  struct Taken {
    double seconds;
    int64_t bytes;
  };
  /// All are kept by reference.
  ShrinkCandidates(const ShrinkState& state, const ShrinkTarget& target, const ShrinkPath& path);
  /// Empty: there are no more.
  std::optional<PlannedNetwork> next();
  void tighten(const PlannedNetwork& network, const Taken& taken);

 private:
  const ShrinkTarget& target_;
  const ShrinkPath& path_;
  compress::Limits limits_;
  std::vector<PlannedNetwork> cheapest_;  // the last one is the cheapest
  int count_ = 0;
};

}  // namespace brim::command
