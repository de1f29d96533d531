// Short trainings with a change and without, in turns, until an interval decides.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <brim/train/doctor.h>

#include "train/doctor/change.h"
#include "train/doctor/estimate.h"
#include "train/doctor/evidence.h"
#include "train/doctor/short_run.h"

namespace brim::train {

/// A training that can be begun again and again, with this setting or another one.
template <class Setting>
class Subject {
 public:
  virtual ~Subject() = default;
  /// Nothing where it was stopped. Throws where it does not run.
  virtual std::optional<ShortRun> run(const Setting& setting) = 0;
  /// All that `setting` leaves to be changed; `run`: one with it.
  virtual std::vector<Change<Setting>> changes(const Setting& setting,
                                               const ShortRun& run) const = 0;
  /// What is learned with Effect::learning; nothing where it was stopped.
  virtual std::optional<LearningCheck> check(const Setting& before, const Setting& after,
                                             double seconds_per_sample) = 0;
  /// The same whose steps all get one batch; nothing where batches cost nothing as it is.
  virtual std::optional<Setting> without_input(const Setting& setting) const = 0;
  /// The same whose devices exchange no gradients; nothing where there is one alone.
  virtual std::optional<Setting> without_exchange(const Setting&) const { return {}; }
};

/// Short trainings with the same setting.
struct ShortRuns {
  std::vector<ShortRun> all;

  Diagnosis diagnosis(double least_share) const {
    std::vector<Measured> stretches;
    std::vector<Evidence> evidence;
    for (const ShortRun& run : all) {
      stretches.push_back(
          {.steps = run.account.wall / run.seconds_per_step, .account = run.account});
      evidence.push_back(run.evidence);
    }
    Diagnosis d = diagnosis_of(stretches, least_share);
    d.evidence = mean_of(evidence);
    for (CauseCost& cost : d.causes)
      cost.because = reasons(d.evidence, cost.cause, cost.share.value);
    return d;
  }
};

/// Of the time, by all causes together.
double share_of(const Diagnosis& diagnosis, const std::vector<diag::Cause>& causes);

/// Throws ValueError for options out of range.
void check_doctor_options(const DoctorOptions& how);

template <class Setting>
class Trials {
 public:
  Trials(Subject<Setting>& subject, Setting setting, const DoctorOptions& how)
      : subject_(subject), setting_(std::move(setting)), how_(how) {}

  Diagnosis diagnose() {
    ShortRuns runs;
    return diagnose(runs);
  }

  CureOf<Setting> cure() {
    CureOf<Setting> cure{.setting = setting_};
    ShortRuns last;  // with the changes that were kept
    cure.before = cure.after = diagnose(last);
    if (how_.diagnosed && !stopped()) how_.diagnosed(cure.before);
    std::set<std::string> seen;
    while (!stopped()) {
      const std::optional<Change<Setting>> change = next_change(cure.setting, last, seen);
      if (!change) break;
      seen.insert(change->options);
      ShortRuns runs;
      Trial trial = compare(cure.setting, change->after,
                            {.what = change->what, .options = change->options}, runs);
      if (trial.verdict == Verdict::faster && change->effect == Effect::learning)
        check(change->after, trial);
      if (stopped()) break;
      cure.trials.push_back(trial);
      if (how_.tried) how_.tried(trial);
      if (trial.verdict != Verdict::faster) continue;
      cure.setting = change->after;
      cure.changes.push_back(change->options);
      cure.same_bits = cure.same_bits && change->effect == Effect::none;
      cure.after = runs.diagnosis(how_.least_share);
      last = std::move(runs);
    }
    if (!stopped() && !cure.changes.empty() && confirm(cure)) return cure;
    cure.setting = setting_;
    cure.changes.clear();
    cure.same_bits = true;
    cure.after = cure.before;
    if (stopped()) cure.speedup.reset();
    return cure;
  }

 private:
  bool stopped() const { return how_.stop && how_.stop->load() != 0; }

  Diagnosis diagnose(ShortRuns& runs) {
    for (int i = 0; i < how_.min_pairs && !stopped(); ++i) {
      if (how_.progress) how_.progress("as it is", static_cast<double>(i) / how_.min_pairs);
      if (auto run = subject_.run(setting_)) runs.all.push_back(std::move(*run));
    }
    if (!runs.all.empty()) seconds_per_sample_ = runs.all.back().seconds_per_sample();
    Diagnosis d = runs.diagnosis(how_.least_share);
    d.without_input = without(
        share_of(d, {diag::Cause::input, diag::Cause::copy_to_device, diag::Cause::staging}),
        "without input", subject_.without_input(setting_));
    d.without_exchange = without(share_of(d, {diag::Cause::communication, diag::Cause::peer}),
                                 "without exchanges", subject_.without_exchange(setting_));
    return d;
  }

  /// How many times as fast a training is that lacks what takes `share` of the time: nothing is
  /// decided by it, so as many pairs as an interval of a few per cent takes, and few at most.
  std::optional<Estimate> without(double share, const char* what,
                                  const std::optional<Setting>& setting) {
    if (stopped() || share < how_.least_share || !setting) return {};
    ShortRuns ignored;
    const auto is_known = [&](const Trial& trial) {
      constexpr double kNarrow = 0.05;
      const Estimate& e = trial.speedup;
      return trial.pairs >= 2 * how_.min_pairs ||
             (trial.pairs >= how_.min_pairs && e.high - e.low < kNarrow * e.value);
    };
    const Trial trial = compare(setting_, *setting, {.what = what}, ignored, is_known);
    if (trial.pairs < 2) return {};
    return trial.speedup;
  }

  /// Of those that were not tried, and whose causes cost enough: what touches no bit comes first,
  /// and then what may gain most.
  std::optional<Change<Setting>> next_change(const Setting& setting, const ShortRuns& runs,
                                             const std::set<std::string>& seen) const {
    // What costs less than the least gain cannot bring it.
    const Diagnosis now = runs.diagnosis(how_.least_gain);
    std::vector<Change<Setting>> changes = subject_.changes(setting, runs.all.back());
    std::erase_if(changes, [&](const Change<Setting>& change) {
      return seen.contains(change.options) || share_of(now, change.causes) < how_.least_gain;
    });
    if (changes.empty()) return {};
    return *std::ranges::min_element(changes, {}, [&](const Change<Setting>& change) {
      return std::pair(change.effect, -share_of(now, change.causes));
    });
  }

  /// Against the setting that was given, so that small losses do not add up.
  void check(const Setting& after, Trial& trial) {
    try {
      trial.check = subject_.check(setting_, after, seconds_per_sample_);
      if (trial.check && !trial.check->is_enough)
        trial.verdict = trial.check->is_undecided ? Verdict::undecided : Verdict::learns_less;
    } catch (const std::exception& e) {
      trial.verdict = Verdict::failed;
      trial.failure = e.what();
    }
  }

  /// All that was kept against nothing. Whether it is faster.
  bool confirm(CureOf<Setting>& cure) {
    ShortRuns runs;
    const Trial all = compare(setting_, cure.setting, {.what = "all that was kept"}, runs);
    cure.failure = all.failure;
    if (all.pairs >= 2) cure.speedup = all.speedup;
    if (all.verdict != Verdict::faster) return false;
    cure.after = runs.diagnosis(how_.least_share);
    return true;
  }

  /// `runs` gets those with the change. `is_enough`: ends it though nothing is decided.
  Trial compare(const Setting& before, const Setting& after, Trial trial, ShortRuns& runs,
                const std::function<bool(const Trial&)>& is_enough = {}) {
    std::vector<double> ratios;
    while (trial.verdict == Verdict::undecided && trial.pairs < how_.max_pairs && !stopped() &&
           !(is_enough && is_enough(trial))) {
      const bool after_first = trial.pairs % 2 == 1;
      std::optional<ShortRun> old_run, new_run;
      for (const bool is_new : {after_first, !after_first}) {
        const int done = 2 * trial.pairs + (is_new != after_first ? 1 : 0);
        if (how_.progress) how_.progress(trial.what, 0.5 * done / how_.max_pairs);
        try {
          auto& run = is_new ? new_run : old_run;
          run = subject_.run(is_new ? after : before);
          if (!run) return trial;  // stopped
        } catch (const std::exception& e) {
          if (!is_new) throw;  // it ran before
          trial.verdict = Verdict::failed;
          trial.failure = e.what();
          return trial;
        }
      }
      ++trial.pairs;
      ratios.push_back(old_run->seconds_per_sample() / new_run->seconds_per_sample());
      runs.all.push_back(std::move(*new_run));
      trial.speedup = ratio_of(ratios);
      trial.verdict = verdict_of(ratios, how_);
    }
    return trial;
  }

  Subject<Setting>& subject_;
  const Setting setting_;
  const DoctorOptions& how_;
  double seconds_per_sample_ = 0;  // of what was given
};

}  // namespace brim::train
