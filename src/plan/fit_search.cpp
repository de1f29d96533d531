// Choices with which a step fits: a search over schedules.
#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "plan/fit.h"

namespace brim::plan {
namespace {

constexpr double kBetter = 1e-6;  // of a step's seconds

/// Those that are not used while the most lives, were all kept.
std::vector<size_t> idle_at_peak(const FitProblem& p) {
  const std::vector<Choice> kept(p.activations.size(), Choice::keep);
  const std::vector<int64_t> live = live_bytes(p, kept, needs_of(p, kept));
  const auto at = static_cast<int>(std::ranges::max_element(live) - live.begin());
  std::vector<size_t> idle;
  for (size_t t = 0; t < p.activations.size(); ++t)
    if (p.activations[t].last_before < at && p.activations[t].first_after > at) idle.push_back(t);
  return idle;
}

/// One of each `length` is kept, and the others are computed again from the one before (Chen et
/// al., 2016), or moved.
std::vector<Choice> in_segments(const FitProblem& p, size_t length) {
  std::vector<Choice> choices(p.activations.size(), Choice::keep);
  const std::vector<size_t> idle = idle_at_peak(p);
  for (size_t n = 0; n < idle.size(); ++n) {
    const size_t t = idle[n];
    const Activation& a = p.activations[t];
    if (n % length == 0) continue;
    choices[t] = a.recompute != kImpossible ? Choice::recompute
                 : a.to_host != kImpossible ? Choice::offload
                                            : Choice::keep;
  }
  return choices;
}
constexpr std::array<size_t, 12> kSegments{2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 48, 1'000'000};

/// Which of those that are kept is moved next.
enum class Order : uint8_t {
  earliest,  ///< the one that is not used for longest: its copies have the most time
  largest,
  cheapest,   ///< by seconds for its bytes
  recompute,  ///< by seconds for its bytes, computed again wherever that is possible
  bf16,       ///< the earliest, kept in bf16 wherever that is possible
  offload_bf16
};

/// Those that a problem has, in the order of their enumerators.
std::vector<Order> orders_of(const FitProblem& p) {
  std::vector<Order> orders{Order::earliest, Order::largest, Order::cheapest, Order::recompute};
  if (!p.may_round) return orders;
  orders.push_back(Order::bf16);
  orders.push_back(Order::offload_bf16);
  return orders;
}
std::vector<Choice> choices_of(const FitProblem& p) {
  std::vector<Choice> choices{Choice::keep, Choice::recompute, Choice::offload};
  if (std::ranges::any_of(p.activations, [](const Activation& a) {
        return a.seconds_of(Choice::keep_mask) != kImpossible;
      }))
    choices.push_back(Choice::keep_mask);
  if (!p.may_round) return choices;
  choices.push_back(Choice::keep_bf16);
  choices.push_back(Choice::offload_bf16);
  return choices;
}

/// How it is moved where the host has so much room, and what that costs where nothing hides it.
std::pair<Choice, double> way_of(const Activation& a, Order order, int64_t host_room) {
  const auto seconds_of = [&](Choice choice) {
    return is_moved(choice) && a.bytes_of(choice) > host_room ? kImpossible : a.seconds_of(choice);
  };
  for (const auto& [rounding, choice] : {std::pair(Order::bf16, Choice::keep_bf16),
                                         std::pair(Order::offload_bf16, Choice::offload_bf16)})
    if (order == rounding && seconds_of(choice) != kImpossible) return {choice, seconds_of(choice)};
  const double copies = seconds_of(Choice::offload);
  const bool is_copied = order == Order::earliest    ? copies != kImpossible
                         : order == Order::recompute ? a.recompute == kImpossible
                                                     : copies <= a.recompute;
  return is_copied ? std::pair(Choice::offload, copies) : std::pair(Choice::recompute, a.recompute);
}

/// Moves activations that are kept until what is live fits.
bool move_until_it_fits(const FitProblem& p, std::vector<Choice>& choices, Order order) {
  int64_t host_room = p.host_limit - bytes_moved(p, choices);
  if (host_room < 0) return false;
  const auto key = [&](const Activation& a) {
    return order == Order::earliest || order >= Order::bf16 ? static_cast<double>(a.last_before)
           : order == Order::largest
               ? -static_cast<double>(a.bytes)
               : way_of(a, order, host_room).second / static_cast<double>(a.bytes);
  };
  while (true) {
    const Needs needs = needs_of(p, choices);
    const std::vector<int64_t> live = live_bytes(p, choices, needs);
    const auto peak = std::ranges::max_element(live);
    if (peak == live.end() || *peak <= p.limit) return true;
    const int at = static_cast<int>(peak - live.begin());
    size_t best = choices.size();
    for (size_t t = 0; t < choices.size(); ++t) {
      const Activation& a = p.activations[t];
      if (choices[t] != Choice::keep || a.last_before >= at || needs.needed_by[t] <= at ||
          way_of(a, order, host_room).second == kImpossible)
        continue;
      if (best == choices.size() || key(a) < key(p.activations[best])) best = t;
    }
    if (best == choices.size()) return false;
    choices[best] = way_of(p.activations[best], order, host_room).first;
    if (is_moved(choices[best])) host_room -= p.activations[best].bytes_of(choices[best]);
  }
}

class Search {
 public:
  explicit Search(const FitProblem& p) : p_(p), orders_(orders_of(p)), choices_(choices_of(p)) {
    // As many as take some tenths of a second.
    constexpr size_t kWork = 40'000'000;
    const size_t size = p.seconds.size() + 8 * p.activations.size() + 1;
    budget_ = std::clamp<size_t>(kWork / size, 300, 20'000);
  }

  std::vector<std::vector<Choice>> best() {
    std::vector<Found> begun = beginnings();
    if (begun.empty()) return {};
    if (p_.activations.empty()) return {{}};
    std::ranges::stable_sort(begun, {}, &Found::seconds);
    std::vector<Found> found(begun.begin(), begun.begin() + std::min(begun.size(), kWays));
    if (begun.size() > kBeginnings) begun.resize(kBeginnings);
    best_ = begun[0];
    for (size_t n = 0; n < begun.size(); ++n) {
      left_ = budget_ / 2 / begun.size();
      improved(std::move(begun[n]));
      found.push_back(at_);
    }
    // From near the best one, to leave what no small change improves.
    left_ = budget_ / 2;
    for (int misses = 0; misses < kMisses && left_ > 0; ++misses)
      if (std::optional<Found> other = disturbed())
        if (improved(std::move(*other))) misses = 0;
    found.push_back(*best_);
    std::ranges::stable_sort(found, {}, &Found::seconds);
    std::vector<std::vector<Choice>> ways;
    for (Found& f : found)
      if (ways.empty() || ways.back() != f.choices) ways.push_back(std::move(f.choices));
    return ways;
  }

 private:
  struct Found {
    std::vector<Choice> choices;
    double seconds = kImpossible;
  };

  /// By each order, behind more and more of those that are cheap to compute again for their bytes,
  /// and of those that are not used for longest, which are moved: the link has the most time.
  std::vector<Found> beginnings() const {
    std::vector<size_t> cheap, early, masks;
    for (const size_t t : idle_at_peak(p_)) {
      if (p_.activations[t].to_mask != kImpossible) masks.push_back(t);
      if (p_.activations[t].recompute != kImpossible) cheap.push_back(t);
      if (p_.activations[t].to_host != kImpossible) early.push_back(t);
    }
    std::ranges::stable_sort(cheap, {}, [&](size_t t) {
      return p_.activations[t].recompute / static_cast<double>(p_.activations[t].bytes);
    });
    std::ranges::stable_sort(early, {}, [&](size_t t) { return p_.activations[t].last_before; });
    std::vector<Found> all;
    begin(cheap, Choice::recompute, all);
    begin(early, Choice::offload, all);
    begin(masks, Choice::keep_mask, all);
    for (const size_t length : kSegments) add(in_segments(p_, length), all);
    return all;
  }

  /// With what has to follow, in each order. Returns the seconds of the best.
  double add(const std::vector<Choice>& choices, std::vector<Found>& all) const {
    double seconds = kImpossible;
    for (const Order order : orders_) {
      Found found{.choices = choices};
      if (!move_until_it_fits(p_, found.choices, order)) continue;
      const Schedule s = schedule(p_, found.choices);
      if (!s.fits) continue;
      found.seconds = s.seconds;
      seconds = std::min(seconds, s.seconds);
      const bool is_known = std::ranges::any_of(
          all, [&](const Found& other) { return other.choices == found.choices; });
      if (!is_known) all.push_back(std::move(found));
    }
    return seconds;
  }

  /// Behind the first few of a list, the first many, and finely where that was best.
  void begin(const std::vector<size_t>& list, Choice choice, std::vector<Found>& all) const {
    const size_t coarse = std::max<size_t>(1, list.size() / 16);
    std::vector<double> seconds(list.size() + 1, kImpossible);
    const auto at = [&](size_t count) {
      std::vector<Choice> choices(p_.activations.size(), Choice::keep);
      for (size_t n = 0; n < count; ++n) choices[list[n]] = choice;
      seconds[count] = add(choices, all);
    };
    for (size_t count = 0; count <= list.size(); count += coarse) at(count);
    const auto best = static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin());
    const size_t fine = std::max<size_t>(1, coarse / 8);
    const size_t end = std::min(list.size(), best + coarse - 1);
    for (size_t count = best - std::min(best, coarse - 1); count <= end; count += fine)
      if (count % coarse != 0) at(count);
  }

  /// Whether it became the best one.
  bool improved(Found found) {
    at_ = std::move(found);
    while (improve()) {
    }
    if (at_.seconds >= best_->seconds * (1 - kBetter)) return false;
    best_ = at_;
    return true;
  }

  /// A few choices drawn anew, or one for many that were made in a row, and what has to follow.
  std::optional<Found> disturbed() {
    Found found{.choices = best_->choices};
    const auto draw = [&](size_t t, Choice choice) {
      if (p_.activations[t].seconds_of(choice) != kImpossible) found.choices[t] = choice;
    };
    const auto any = [&] { return choices_[random_() % choices_.size()]; };
    const size_t count = found.choices.size();
    if (random_() % 2 == 0) {
      for (int n = 0; n < kDisturbed; ++n) draw(random_() % count, any());
    } else {
      const size_t first = random_() % count, length = 2 + random_() % kInARow;
      const Choice choice = any();
      for (size_t t = first; t < std::min(count, first + length); ++t) draw(t, choice);
    }
    if (left_ > 0) --left_;
    if (!move_until_it_fits(p_, found.choices, orders_[random_() % orders_.size()])) return {};
    const Schedule s = schedule(p_, found.choices);
    if (!s.fits) return {};
    found.seconds = s.seconds;
    return found;
  }

  bool accept(std::vector<Choice> choices) {
    if (left_ > 0) --left_;
    const Schedule s = schedule(p_, choices);
    if (!s.fits || s.seconds >= at_.seconds * (1 - kBetter)) return false;
    at_ = {std::move(choices), s.seconds};
    return true;
  }

  /// Single changes, then changes of two at once, as many as there are of the single ones or a few
  /// times that. Whether one helped.
  bool improve() {
    const size_t count = p_.activations.size();
    bool is_better = false;
    const size_t first = random_() % std::max<size_t>(count, 1);
    for (size_t n = 0; n < count && left_ > 0; ++n)
      for (const Choice choice : choices_) {
        const size_t t = (first + n) % count;
        if (!may(t, choice)) continue;
        std::vector<Choice> other = at_.choices;
        other[t] = choice;
        is_better = accept(std::move(other)) || is_better;
      }
    if (is_better) return left_ > 0;
    for (size_t n = 0; n < kPairs * count && left_ > 0; ++n) {
      // One of them is kept, or moved in another way, for the other one.
      const size_t t = random_() % count, u = random_() % count;
      const Choice choice = choices_[random_() % choices_.size()],
                   second = choices_[random_() % choices_.size()];
      if (t == u || at_.choices[t] == Choice::keep || !may(t, choice) || !may(u, second)) continue;
      std::vector<Choice> other = at_.choices;
      other[t] = choice;
      other[u] = second;
      is_better = accept(std::move(other)) || is_better;
    }
    return is_better && left_ > 0;
  }
  bool may(size_t t, Choice choice) const {
    return at_.choices[t] != choice && p_.activations[t].seconds_of(choice) != kImpossible;
  }

  static constexpr size_t kBeginnings = 4, kPairs = 24, kWays = 12, kInARow = 24;
  static constexpr int kDisturbed = 4, kMisses = 100;

  const FitProblem& p_;
  const std::vector<Order> orders_;
  const std::vector<Choice> choices_;
  size_t budget_, left_ = 0;  // schedules that may be tried
  std::minstd_rand random_{1};
  Found at_;
  std::optional<Found> best_;
};

}  // namespace

std::vector<std::vector<Choice>> solve(const FitProblem& problem) { return Search(problem).best(); }

int64_t least_limit(const FitProblem& problem) {
  const auto peak_of = [&](const std::vector<Choice>& choices) {
    const std::vector<int64_t> live = live_bytes(problem, choices, needs_of(problem, choices));
    return live.empty() ? 0 : *std::ranges::max_element(live);
  };
  std::vector<Choice> moved, masked;
  for (const Activation& a : problem.activations) {
    moved.push_back(a.to_host != kImpossible                        ? Choice::offload
                    : a.recompute != kImpossible                    ? Choice::recompute
                    : problem.may_round && a.to_bf16 != kImpossible ? Choice::keep_bf16
                                                                    : Choice::keep);
    masked.push_back(a.to_mask != kImpossible ? Choice::keep_mask : moved.back());
  }
  int64_t least =
      std::min({peak_of(moved), peak_of(masked), peak_of(std::vector<Choice>(moved.size()))});
  for (const size_t length : kSegments)
    least = std::min(least, peak_of(in_segments(problem, length)));
  return least;
}

}  // namespace brim::plan
