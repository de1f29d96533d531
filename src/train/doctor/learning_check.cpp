#include "train/doctor/learning_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "core/check.h"
#include "train/doctor/short_run.h"

namespace brim::train {
namespace {

constexpr double kLeastFall = 0.05;   // of the loss, for a training that learned something
constexpr double kLeastShare = 0.95;  // of that fall, with a change
constexpr double kFractionLost = 0.01, kShareLost = 0.02;  // of the metric, at most

/// A training on so many samples, and what it came from.
class Learning {
 public:
  Learning(const TrainSetting& setting, int64_t samples, uint64_t seed, const DoctorOptions& how)
      : data_(setting.recipe.data),
        trainer_(recipe_of(setting, seed), options_of(setting, samples, how)) {}

  /// On the test split; nothing on a stop.
  std::optional<Evaluation> test() {
    std::optional<Evaluation> test = trainer_.test();
    BRIM_CHECK(trainer_.test_loader() && (!test || !test->metrics.empty()), ValueError,
               "[doctor] {} has no test split, so nothing says whether as much is learned with the "
               "change; allow none of precision and batch",
               data_);
    return test;
  }
  /// Samples that it saw.
  int64_t train() { return trainer_.train().images; }

 private:
  static Recipe recipe_of(const TrainSetting& setting, uint64_t seed) {
    Recipe recipe = setting.recipe;
    recipe.seed = seed;
    recipe.validation.patience = 0;
    return recipe;
  }
  static TrainOptions options_of(const TrainSetting& setting, int64_t samples,
                                 const DoctorOptions& how) {
    TrainOptions options = silent(setting.options);
    options.max_steps = (samples + setting.recipe.batch - 1) / setting.recipe.batch;
    options.stop = how.stop;
    options.account = false;
    return options;
  }

  const std::string data_;
  Trainer trainer_;
};

void add(LearningCheck::Result& mean, const Evaluation& test, int pairs) {
  mean.loss += test.loss / pairs;
  mean.metric += test.metrics.front().value / pairs;
}

}  // namespace

void judge(LearningCheck& check, bool higher_is_better) {
  const double fall = check.untrained.loss - check.before.loss;
  check.is_undecided = !(fall >= kLeastFall * std::abs(check.untrained.loss));
  const double lost = higher_is_better ? check.before.metric - check.after.metric
                                       : check.after.metric - check.before.metric;
  check.is_enough =
      !check.is_undecided && check.untrained.loss - check.after.loss >= kLeastShare * fall &&
      lost <= (check.is_fraction ? kFractionLost : kShareLost * std::abs(check.before.metric));
}

std::optional<LearningCheck> check_learning(const TrainSetting& before, const TrainSetting& after,
                                            double seconds_per_sample, const DoctorOptions& how) {
  // Full batches of both.
  const int64_t both = std::lcm(before.recipe.batch, after.recipe.batch);
  const auto asked = static_cast<int64_t>(how.check_seconds / std::max(seconds_per_sample, 1e-9));
  const int64_t samples = (asked / both + 1) * both;
  LearningCheck check{.pairs = how.check_pairs};
  bool higher_is_better = true;
  for (int pair = 0; pair < how.check_pairs; ++pair)
    for (const bool is_new : {false, true}) {
      if (how.progress)
        how.progress("what is learned", 0.5 * (2 * pair + (is_new ? 1 : 0)) / how.check_pairs);
      Learning learning(is_new ? after : before, samples,
                        before.recipe.seed + static_cast<uint64_t>(pair), how);
      if (!is_new) {
        const std::optional<Evaluation> untrained = learning.test();
        if (!untrained) return {};
        add(check.untrained, *untrained, how.check_pairs);
      }
      check.samples = learning.train();
      const std::optional<Evaluation> test = learning.test();
      if (!test || (how.stop && how.stop->load() != 0)) return {};
      add(is_new ? check.after : check.before, *test, how.check_pairs);
      check.metric = test->metrics.front().name;
      check.is_fraction = test->metrics.front().is_fraction;
      higher_is_better = test->metrics.front().higher_is_better;
    }
  judge(check, higher_is_better);
  return check;
}

}  // namespace brim::train
