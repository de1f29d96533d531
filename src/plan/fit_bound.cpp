// What no choice can avoid. Whatever is over the limit during a launch is gone by then: moved, at
// the rate of the link, or made again behind the launch, the cheapest bytes first and in any parts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/fit.h"

namespace brim::plan {
namespace {

/// Seconds a byte, at best.
struct Link {
  double to_host = kImpossible, to_device = kImpossible;
};
Link best_link(const FitProblem& p) {
  Link best;
  for (const Activation& a : p.activations) {
    if (a.to_host == kImpossible || a.bytes == 0) continue;
    const auto bytes = static_cast<double>(a.bytes);
    best.to_host = std::min(best.to_host, a.to_host / bytes);
    best.to_device = std::min(best.to_device, a.to_device / bytes);
  }
  return best;
}

/// Calls a function for each launch during which more lives than the limit, with what is over and
/// with the seconds of the launches before and behind it.
template <class F>
void for_each_excess(const FitProblem& p, const F& call) {
  const std::vector<Choice> kept(p.activations.size(), Choice::keep);
  const std::vector<int64_t> live = live_bytes(p, kept, needs_of(p, kept));
  double before = 0, after = 0;
  for (const double seconds : p.seconds) after += seconds;
  for (size_t i = 0; i < live.size(); ++i) {
    after -= p.seconds[i];
    if (live[i] > p.limit) call(i, static_cast<double>(live[i] - p.limit), before, after);
    before += p.seconds[i];
  }
}

/// Seconds a byte to have an activation again without the link.
double seconds_to_make(const FitProblem& p, const Activation& a) {
  const auto bytes = static_cast<double>(a.bytes);
  double least = std::min(a.recompute, a.from_mask) / bytes;
  if (p.may_round) least = std::min(least, a.from_bf16 / (bytes / 2));
  return least;
}

/// What can be made again of the activations that wait during a launch, the cheapest first.
class Made {
 public:
  void add(double bytes, double seconds_a_byte) {
    bytes_.push_back(all() + bytes);
    seconds_.push_back((seconds_.empty() ? 0 : seconds_.back()) + bytes * seconds_a_byte);
  }
  double all() const { return bytes_.empty() ? 0 : bytes_.back(); }
  double seconds_of(double bytes) const {
    if (bytes <= 0) return 0;
    const auto at = static_cast<size_t>(std::ranges::lower_bound(bytes_, bytes) - bytes_.begin());
    if (at == bytes_.size()) return seconds_.back();
    const double from = at > 0 ? bytes_[at - 1] : 0, spent = at > 0 ? seconds_[at - 1] : 0;
    return spent + (seconds_[at] - spent) * (bytes - from) / (bytes_[at] - from);
  }

 private:
  std::vector<double> bytes_, seconds_;  // sums
};

/// The least of a convex function.
template <class F>
double least_of(double from, double to, const F& function) {
  constexpr int kSteps = 60;
  for (int i = 0; i < kSteps; ++i) {
    const double third = (to - from) / 3;
    if (function(from + third) <= function(to - third))
      to -= third;
    else
      from += third;
  }
  return function(from);
}

}  // namespace

double link_bound(const FitProblem& p) {
  const Link link = best_link(p);
  double bound = 0;
  for_each_excess(p, [&](size_t, double over, double before, double after) {
    bound = std::max(bound, std::max(0.0, over * link.to_host - before) +
                                std::max(0.0, over * link.to_device - after));
  });
  return bound;
}

double step_bound(const FitProblem& p) {
  Link link = best_link(p);
  if (p.may_round) link = {link.to_host / 2, link.to_device / 2};
  std::vector<const Activation*> cheapest;
  for (const Activation& a : p.activations)
    if (a.bytes > 0) cheapest.push_back(&a);
  std::ranges::stable_sort(cheapest, {},
                           [&](const Activation* a) { return seconds_to_make(p, *a); });
  double bound = 0;
  for_each_excess(p, [&](size_t launch, double over, double before, double after) {
    const int at = static_cast<int>(launch);
    Made made;
    double movable = 0;
    for (const Activation* a : cheapest) {
      if (at <= a->last_before || at >= a->first_after) continue;
      const auto bytes = static_cast<double>(a->bytes);
      if (a->to_host != kImpossible) movable += bytes;
      if (const double seconds = seconds_to_make(p, *a); seconds != kImpossible)
        made.add(bytes, seconds);
    }
    const double from = std::max(0.0, over - made.all());
    const double to = std::min(over, movable);
    if (from > to) {
      bound = kImpossible;
      return;
    }
    const auto seconds_with = [&](double moved) {
      if (moved == 0) return made.seconds_of(over);
      const double out = std::max(0.0, moved * link.to_host - before);
      const double back = std::max(0.0, moved * link.to_device - after);
      return out + std::max(back, made.seconds_of(over - moved));
    };
    bound = std::max(bound, least_of(from, to, seconds_with));
  });
  return bound;
}

}  // namespace brim::plan
