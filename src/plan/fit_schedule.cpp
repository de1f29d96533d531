// What choices take: a step on a virtual clock.
#include "plan/fit.h"

#include <algorithm>
#include <deque>

namespace brim::plan {
namespace {

/// A copy back takes about as long as predicted; it begins by so much of that earlier.
constexpr double kEarlier = 0.05;

/// The virtual clock.
class Clock {
 public:
  Clock(const FitProblem& p, const std::vector<Choice>& choices)
      : p_(p),
        choices_(choices),
        needs_(needs_of(p, choices)),
        live_(live_bytes(p, choices, needs_)) {
    const size_t launches = p.seconds.size();
    again_.assign(launches, 0);
    behind_.assign(launches, 0);
    s_.trips.resize(p.activations.size());
    for (size_t t = 0; t < p.activations.size(); ++t) {
      if (choices[t] == Choice::keep) continue;
      s_.trips[t].needed_by = needs_.needed_by[t];
      const Activation& a = p.activations[t];
      double& again = again_[static_cast<size_t>(needs_.needed_by[t])];
      if (choices[t] == Choice::recompute) again += a.recompute;
      if (!is_packed(choices[t])) continue;
      behind_[static_cast<size_t>(a.last_before)] += a.seconds_to_pack(choices[t]);
      again += a.seconds_to_unpack(choices[t]);
    }
    place_fetches();
  }

  Schedule run() {
    const size_t launches = p_.seconds.size();
    std::vector<std::vector<size_t>> ends(launches);  // by launch: offloaded activations it leaves
    for (size_t t = 0; t < choices_.size(); ++t)
      if (is_moved(choices_[t]))
        ends[static_cast<size_t>(p_.activations[t].last_before)].push_back(t);
    auto fetch = fetches_.begin();
    std::vector<double> here(choices_.size(), 0);  // when a fetch is done
    auto need = fetches_.begin();
    s_.fits = bytes_moved(p_, choices_) <= p_.host_limit && !reads_a_mask();
    for (size_t i = 0; i < launches; ++i) {
      const int at = static_cast<int>(i);
      const auto bytes = [&] { return live_[i] + ahead_[i] + leaving_bytes_; };
      while (!leaving_.empty() &&
             (p_.in_turn || leaving_.front().second <= now_ || bytes() > p_.limit))
        release(at);
      for (; fetch != fetches_.end() && s_.trips[*fetch].fetched_at == at; ++fetch) {
        while (s_.trips[*fetch].released_by < 0) release(at);
        in_free_ =
            std::max(in_free_, now_) + p_.activations[*fetch].seconds_to_device(choices_[*fetch]);
        here[*fetch] = in_free_;
      }
      s_.peak = std::max(s_.peak, bytes());
      s_.fits = s_.fits && bytes() <= p_.limit;
      for (; need != fetches_.end() && s_.trips[*need].needed_by == at; ++need)
        wait_until(here[*need]);
      now_ += again_[i] + p_.seconds[i] + behind_[i];
      for (const size_t t : ends[i]) {
        out_free_ = std::max(out_free_, now_) + p_.activations[t].seconds_to_host(choices_[t]);
        leaving_.emplace_back(t, out_free_);
        leaving_bytes_ += moved_bytes(t);
      }
    }
    s_.seconds = now_;
    return std::move(s_);
  }

 private:
  /// Whether something is computed again of what only a mask was kept of.
  bool reads_a_mask() const {
    for (size_t t = 0; t < choices_.size(); ++t)
      if (choices_[t] == Choice::recompute)
        for (const int of : p_.activations[t].made_of)
          if (const auto u = static_cast<size_t>(of);
              choices_[u] == Choice::keep_mask &&
              needs_.needed_by[t] > p_.activations[u].last_before)
            return true;
    return false;
  }
  void wait_until(double end) {
    s_.waiting += std::max(0.0, end - now_);
    now_ = std::max(now_, end);
  }
  int64_t moved_bytes(size_t t) const { return p_.activations[t].bytes_of(choices_[t]); }
  void release(int at) {
    const auto [t, done] = leaving_.front();
    leaving_.pop_front();
    wait_until(done);
    leaving_bytes_ -= moved_bytes(t);
    s_.trips[t].released_by = at;
  }

  /// In the order in which they are needed, from the last one back.
  void place_fetches() {
    const size_t launches = p_.seconds.size();
    ahead_.assign(launches, 0);
    for (size_t t = 0; t < choices_.size(); ++t)
      if (is_moved(choices_[t])) fetches_.push_back(t);
    std::ranges::stable_sort(fetches_, {}, [&](size_t t) { return needs_.needed_by[t]; });
    std::vector<double> starts(launches + 1, 0);  // of launches that wait for nothing
    for (size_t i = 0; i < launches; ++i)
      starts[i + 1] = starts[i] + again_[i] + p_.seconds[i] + behind_[i];
    double next = kImpossible;
    for (size_t n = fetches_.size(); n-- > 0;) {
      const size_t t = fetches_[n];
      const Activation& a = p_.activations[t];
      const auto needed = static_cast<size_t>(needs_.needed_by[t]);
      next = std::min(next, starts[needed]) - (1 + kEarlier) * a.seconds_to_device(choices_[t]);
      size_t at = needed;
      while (!p_.in_turn && at > static_cast<size_t>(a.last_before) + 1 && starts[at] > next &&
             live_[at - 1] + ahead_[at - 1] + moved_bytes(t) <= p_.limit)
        ahead_[--at] += moved_bytes(t);
      s_.trips[t].fetched_at = static_cast<int>(at);
    }
    // One that is needed sooner is not behind another one.
    int least = 0;
    for (const size_t t : fetches_) {
      int& at = s_.trips[t].fetched_at;
      for (; at < least && at < needs_.needed_by[t]; ++at)
        ahead_[static_cast<size_t>(at)] -= moved_bytes(t);
      least = at;
    }
  }

  const FitProblem& p_;
  const std::vector<Choice>& choices_;
  const Needs needs_;
  const std::vector<int64_t> live_;
  std::vector<int64_t> ahead_;   // bytes of copies back that are not needed yet
  std::vector<double> again_;    // seconds before each launch
  std::vector<double> behind_;   // and behind it
  std::vector<size_t> fetches_;  // in their order
  std::deque<std::pair<size_t, double>> leaving_;
  int64_t leaving_bytes_ = 0;
  double now_ = 0, out_free_ = 0, in_free_ = 0;
  Schedule s_;
};

}  // namespace

std::string_view name(Choice choice) {
  switch (choice) {
    case Choice::keep:
      return "keep";
    case Choice::offload:
      return "offload";
    case Choice::recompute:
      return "recompute";
    case Choice::keep_mask:
      return "keep mask";
    case Choice::keep_bf16:
      return "keep bf16";
    case Choice::offload_bf16:
      return "offload bf16";
  }
  return "";
}

double Activation::seconds_of(Choice choice) const {
  switch (choice) {
    case Choice::keep:
      return 0;
    case Choice::offload:
      return to_host + to_device;
    case Choice::recompute:
      return recompute;
    case Choice::keep_mask:
      return to_mask + from_mask;
    case Choice::keep_bf16:
      return to_bf16 + from_bf16;
    case Choice::offload_bf16:
      return to_bf16 + from_bf16 + (to_host + to_device) / 2;
  }
  return kImpossible;
}

Needs needs_of(const FitProblem& p, const std::vector<Choice>& choices) {
  const size_t count = p.activations.size();
  Needs needs{.needed_by = std::vector<int>(count), .last_use = std::vector<int>(count)};
  for (size_t t = 0; t < count; ++t) {
    needs.needed_by[t] = p.activations[t].first_after;
    needs.last_use[t] = p.activations[t].last_use;
  }
  for (size_t t = p.activations.size(); t-- > 0;) {  // what is made later first
    if (choices[t] != Choice::recompute) continue;
    const int at = needs.needed_by[t];
    for (const int made_of : p.activations[t].made_of) {
      const auto u = static_cast<size_t>(made_of);
      if (at <= p.activations[u].last_before) continue;
      needs.needed_by[u] = std::min(needs.needed_by[u], at);
      needs.last_use[u] = std::max(needs.last_use[u], at);
    }
  }
  return needs;
}

std::vector<int64_t> live_bytes(const FitProblem& p, const std::vector<Choice>& choices,
                                const Needs& needs) {
  const size_t launches = p.seconds.size();
  std::vector<int64_t> change(launches + 1, 0);
  const auto lives = [&](int first, int last, int64_t bytes) {
    change[static_cast<size_t>(first)] += bytes;
    change[static_cast<size_t>(last) + 1] -= bytes;
  };
  for (size_t t = 0; t < p.activations.size(); ++t) {
    const Activation& a = p.activations[t];
    if (choices[t] == Choice::keep) {
      lives(a.made_by, needs.last_use[t], a.bytes);
    } else {
      lives(a.made_by, a.last_before, a.bytes);
      lives(needs.needed_by[t], needs.last_use[t], a.bytes);
      const int64_t packed = a.bytes_of(choices[t]);
      if (choices[t] == Choice::keep_bf16 || choices[t] == Choice::keep_mask)
        lives(a.last_before, needs.needed_by[t], packed);
      if (choices[t] == Choice::offload_bf16) {  // while it is rounded, and back
        lives(a.last_before, a.last_before, packed);
        lives(needs.needed_by[t], needs.needed_by[t], packed);
      }
    }
  }
  std::vector<int64_t> live = p.others;
  int64_t sum = 0;
  for (size_t i = 0; i < launches; ++i) live[i] += sum += change[i];
  return live;
}

int64_t bytes_moved(const FitProblem& p, const std::vector<Choice>& choices) {
  int64_t bytes = 0;
  for (size_t t = 0; t < choices.size(); ++t)
    if (is_moved(choices[t])) bytes += p.activations[t].bytes_of(choices[t]);
  return bytes;
}

Schedule schedule(const FitProblem& problem, const std::vector<Choice>& choices) {
  return Clock(problem, choices).run();
}

}  // namespace brim::plan
