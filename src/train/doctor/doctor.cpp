// See <brim/train/doctor.h>.
#include <brim/train/doctor.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "core/check.h"
#include "train/doctor/changes.h"
#include "train/doctor/estimate.h"
#include "train/doctor/short_run.h"

namespace brim::train {

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference:
      return "no difference";
    case Verdict::undecided:
      return "undecided";
    case Verdict::failed:
      return "failed";
  }
  return "";
}

/// Short trainings with the same options.
struct Doctor::Runs {
  std::vector<ShortRun> all;

  Diagnosis diagnosis(double least_share) const {
    std::vector<Measured> stretches;
    for (const ShortRun& run : all)
      stretches.push_back({.steps = static_cast<double>(run.steps), .account = run.account});
    return diagnosis_of(stretches, least_share);
  }
};

namespace {

double share_of(const Diagnosis& diagnosis, const std::vector<diag::Cause>& causes) {
  double sum = 0;
  for (const CauseCost& cost : diagnosis.causes)
    if (std::ranges::find(causes, cost.cause) != causes.end()) sum += cost.share.value;
  if (std::ranges::find(causes, diag::Cause::compute) != causes.end()) sum += diagnosis.busy.value;
  return sum;
}

}  // namespace

Doctor::Doctor(const Recipe& recipe, TrainOptions options, DoctorOptions how)
    : recipe_(recipe), options_(std::move(options)), how_(std::move(how)) {
  BRIM_CHECK(how_.seconds > 0 && how_.seconds <= 3600, ValueError,
             "[doctor] trials of {} s cannot be measured; use up to 3600", how_.seconds);
  BRIM_CHECK(how_.min_pairs >= 2 && how_.max_pairs >= how_.min_pairs, ValueError,
             "[doctor] {} to {} pairs decide nothing; use 2 or more, and no fewer at most than at "
             "least",
             how_.min_pairs, how_.max_pairs);
  BRIM_CHECK(!options_.group, ValueError,
             "[doctor] it cannot examine one of several processes; leave TrainOptions::group out, "
             "or name the devices in TrainOptions::devices");
}

Trial Doctor::compare(const TrainOptions& before, const TrainOptions& after, Trial trial,
                      Runs& runs) {
  std::vector<double> ratios;
  while (trial.verdict == Verdict::undecided && trial.pairs < how_.max_pairs && !stopped()) {
    const bool after_first = trial.pairs % 2 == 1;
    std::optional<ShortRun> old_run, new_run;
    for (const bool is_new : {after_first, !after_first}) try {
        const int done = 2 * trial.pairs + (is_new != after_first ? 1 : 0);
        if (how_.progress) how_.progress(trial.what, 0.5 * done / how_.max_pairs);
        auto& run = is_new ? new_run : old_run;
        run = run_shortly(recipe_, is_new ? after : before, how_.seconds, how_.stop);
        if (!run) return trial;  // stopped
      } catch (const std::exception& e) {
        if (!is_new) throw;  // it ran before
        trial.verdict = Verdict::failed;
        trial.failure = e.what();
        return trial;
      }
    ++trial.pairs;
    runs.all.push_back(*new_run);
    ratios.push_back(old_run->seconds_per_step / new_run->seconds_per_step);
    trial.speedup = ratio_of(ratios);
    trial.verdict = verdict_of(ratios, how_);
  }
  return trial;
}

Diagnosis Doctor::diagnose() {
  Runs runs;
  return diagnose(runs);
}

Diagnosis Doctor::diagnose(Runs& runs) {
  for (int i = 0; i < how_.min_pairs && !stopped(); ++i) {
    if (how_.progress) how_.progress("as it is", static_cast<double>(i) / how_.min_pairs);
    if (const auto run = run_shortly(recipe_, options_, how_.seconds, how_.stop))
      runs.all.push_back(*run);
  }
  Diagnosis d = runs.diagnosis(how_.least_share);
  const double input =
      share_of(d, {diag::Cause::input, diag::Cause::copy_to_device, diag::Cause::staging});
  if (stopped() || input < how_.least_share || options_.data_on_device) return d;
  TrainOptions repeated = options_;
  repeated.repeat_batch = true;
  Runs ignored;
  const Trial trial = compare(options_, repeated, {.what = "without input"}, ignored);
  if (trial.pairs >= 2) d.without_input = trial.speedup;
  return d;
}

Cure Doctor::cure() {
  Cure cure{.options = options_};
  Runs last;  // with the changes that were kept
  cure.before = cure.after = diagnose(last);
  if (how_.diagnosed && !stopped()) how_.diagnosed(cure.before);
  std::set<std::string> seen;
  while (!stopped()) {
    std::vector<Change> changes =
        possible_changes(cure.options, last.all.back(), how_.allow_rounding);
    std::erase_if(changes, [&](const Change& c) {
      return seen.contains(c.options) || share_of(cure.after, c.causes) < how_.least_share;
    });
    if (changes.empty()) break;
    const Change change = *std::ranges::max_element(
        changes, {}, [&](const Change& c) { return share_of(cure.after, c.causes); });
    seen.insert(change.options);
    Runs runs;
    const Trial trial =
        compare(cure.options, change.after, {.what = change.what, .options = change.options}, runs);
    if (stopped()) break;
    cure.trials.push_back(trial);
    if (how_.tried) how_.tried(trial);
    if (trial.verdict != Verdict::faster) continue;
    cure.options = change.after;
    cure.changes.push_back(change.options);
    cure.same_bits = cure.same_bits && !change.rounds;
    cure.after = runs.diagnosis(how_.least_share);
    last = runs;
  }
  bool is_better = false;
  if (!stopped() && !cure.changes.empty()) {
    Runs runs;
    const Trial all = compare(options_, cure.options, {.what = "all that was kept"}, runs);
    is_better = all.verdict == Verdict::faster;
    cure.failure = all.failure;
    if (all.pairs >= 2) cure.speedup = all.speedup;
    if (is_better) cure.after = runs.diagnosis(how_.least_share);
  }
  if (!is_better) {
    cure.options = options_;
    cure.changes.clear();
    cure.same_bits = true;
    cure.after = cure.before;
  }
  if (stopped()) cure.speedup.reset();
  return cure;
}

}  // namespace brim::train
