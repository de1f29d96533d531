// See <brim/train/doctor.h>.
#include <brim/train/doctor.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "train/doctor/changes.h"
#include "train/doctor/learning_check.h"
#include "train/doctor/short_run.h"
#include "train/doctor/trials.h"

namespace brim::train {

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::learns_less:
      return "learns less";
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

double share_of(const Diagnosis& diagnosis, const std::vector<diag::Cause>& causes) {
  double sum = 0;
  for (const CauseCost& cost : diagnosis.causes)
    if (std::ranges::find(causes, cost.cause) != causes.end()) sum += cost.share.value;
  if (std::ranges::find(causes, diag::Cause::compute) != causes.end()) sum += diagnosis.busy.value;
  return sum;
}

void check_doctor_options(const DoctorOptions& how) {
  BRIM_CHECK(how.seconds > 0 && how.seconds <= 3600, ValueError,
             "[doctor] trials of {} s cannot be measured; use up to 3600", how.seconds);
  BRIM_CHECK(how.min_pairs >= 2 && how.max_pairs >= how.min_pairs, ValueError,
             "[doctor] {} to {} pairs decide nothing; use 2 or more, and no fewer at most than at "
             "least",
             how.min_pairs, how.max_pairs);
  BRIM_CHECK(how.check_pairs >= 1 && how.check_seconds > 0 && how.check_seconds <= 1e6, ValueError,
             "[doctor] {} pairs of {} s show nothing of what is learned; use 1 or more, of up to "
             "1e6 s",
             how.check_pairs, how.check_seconds);
}

namespace {

/// What a recipe describes.
class RecipeSubject final : public Subject<TrainSetting> {
 public:
  explicit RecipeSubject(const DoctorOptions& how) : how_(how) {}

  std::optional<ShortRun> run(const TrainSetting& setting) override {
    return run_shortly(setting.recipe, setting.options, how_.seconds, how_.stop);
  }
  std::vector<Change<TrainSetting>> changes(const TrainSetting& setting,
                                            const ShortRun& run) const override {
    return possible_changes(setting, run, how_);
  }
  std::optional<LearningCheck> check(const TrainSetting& before, const TrainSetting& after,
                                     double seconds_per_sample) override {
    return check_learning(before, after, seconds_per_sample, how_);
  }
  std::optional<TrainSetting> without_input(const TrainSetting& setting) const override {
    if (setting.options.data_on_device) return {};
    TrainSetting repeated = setting;
    repeated.options.repeat_batch = true;
    return repeated;
  }
  std::optional<TrainSetting> without_exchange(const TrainSetting& setting) const override {
    if (setting.options.devices.size() < 2) return {};
    TrainSetting alone = setting;
    alone.options.exchange_gradients = false;
    return alone;
  }

 private:
  const DoctorOptions& how_;
};

}  // namespace

Doctor::Doctor(const Recipe& recipe, TrainOptions options, DoctorOptions how)
    : setting_{recipe, std::move(options)}, how_(std::move(how)) {
  check_doctor_options(how_);
  BRIM_CHECK(!setting_.options.group, ValueError,
             "[doctor] it cannot examine one of several processes; leave TrainOptions::group out, "
             "or name the devices in TrainOptions::devices");
}

Diagnosis Doctor::diagnose() {
  RecipeSubject subject(how_);
  return Trials<TrainSetting>(subject, setting_, how_).diagnose();
}

Cure Doctor::cure() {
  RecipeSubject subject(how_);
  Cure cure = Trials<TrainSetting>(subject, setting_, how_).cure();
  cure.setting.recipe.speed = speed_of(cure.setting.options);
  return cure;
}

}  // namespace brim::train
