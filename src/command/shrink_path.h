// What `brim shrink` is to find, and the way there: from the dense network to one within the
// limits, or to the smallest one.
#pragma once

#include <brim/compress/shrink.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/shrink_state.h"

namespace brim::command {

/// What is wanted; at least one of them.
struct ShrinkTarget {
  std::optional<double> seconds;         ///< that a pass takes at most
  std::optional<int64_t> bytes;          ///< that the file has at most
  std::optional<double> loss_of_metric;  ///< at most, as a fraction

  /// Of options as they are typed: "3ms", "500k", points. Throws UsageError.
  static ShrinkTarget parse(const std::string& latency, const std::string& size,
                            std::optional<double> accuracy);
  /// Whether only the accuracy says how small the network may get.
  bool is_open() const { return !seconds && !bytes; }
  bool is_met_by(const ShrunkPoint& point, const ShrunkPoint& dense) const;
  /// What is taken, as a multiple of the limits: the worse one.
  double share_of_limits(double taken_s, int64_t taken_bytes) const;
};

/// By what was measured, which is kept by reference: the layers and the dense network.
class ShrinkPath {
 public:
  ShrinkPath(const ShrinkState& state, const ShrinkTarget& target);

  /// Throws ValueError where no layer has another form, or none of them takes so few bytes.
  void check_reachable() const;
  /// What the target's limits leave the layers.
  compress::Limits limits() const;
  /// How long the layers take where a pass takes so long.
  double of_layers(double seconds) const { return (seconds - rest_s_) / scale_; }
  /// The choice at a share of the way: with limits of what is to be spared, else of the layers'
  /// exchanges.
  compress::Choice at(double share) const;
  /// Where the next point is: with limits those first, then gentler ones; else the smallest
  /// network, and then halves of the way to where the accuracy is just kept. Empty: that is all.
  std::optional<double> next_share(int64_t max_points) const;
  /// Of a pass.
  double predicted_s(const compress::Choice& choice) const {
    return choice.seconds * scale_ + rest_s_;
  }
  /// Time and bytes of a network, each as a share of the dense one's.
  double cost(double seconds, int64_t bytes) const;

 private:
  const compress::Choice& dense() const { return frontier_.front(); }
  const ShrunkPoint& dense_point() const { return state_.points[0]; }

  const ShrinkState& state_;
  const ShrinkTarget& target_;
  std::vector<compress::Choice> frontier_;  // of time and bytes alike
  // Layers one by one may take more than together; what they do not take is of others.
  double scale_ = 1, rest_s_ = 0;
  int64_t rest_bytes_ = 0;
};

/// Choices that may meet the limits as a whole network: with the limits of the layers tightened by
/// what the ones before missed, and then the cheapest.
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
  std::optional<compress::Choice> next();
  void tighten(const compress::Choice& choice, const Taken& taken);

 private:
  const ShrinkState& state_;
  const ShrinkTarget& target_;
  const ShrinkPath& path_;
  compress::Limits limits_;
  std::vector<compress::Choice> cheapest_;  // the last one is the cheapest
  int count_ = 0;
};

}  // namespace brim::command
