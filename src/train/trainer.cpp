// Making a Trainer, and what surrounds its loop.
#include <brim/train/trainer.h>

#include <brim/core/random.h>
#include <brim/nn/models.h>
#include <brim/train/weights.h>

#include <algorithm>

#include "core/check.h"
#include "core/runtime.h"
#include "train/build.h"
#include "train/trainer_state.h"
#include "train/training_loop.h"

namespace brim::train {

Trainer::State::State(const Recipe& r, TrainOptions o)
    : recipe(r),
      options(std::move(o)),
      loader(make_loader(r, data::Split::train, true, options.workers, open_progress())) {
  // Now, so that a damaged test split is not found out after hours of training.
  Recipe test = r;
  test.batch = std::max<int64_t>(r.batch, 100);
  try {
    test_loader = make_loader(test, data::Split::test, false, options.workers, open_progress());
  } catch (const data::NoSuchSplit&) {
  }
}

data::OpenProgress Trainer::State::open_progress() const {
  return [this](double fraction) {
    if (options.stage) options.stage("open", fraction);
    return !stop_asked();
  };
}

Trainer::Trainer(const Recipe& recipe, TrainOptions options) {
  check_recipe(recipe);
  check_available(options.device);
  state_ = std::make_unique<State>(recipe, std::move(options));
  State& s = *state_;
  manual_seed(recipe.seed);
  s.model = nn::make_model(recipe.model,
                           {.classes = static_cast<int64_t>(s.loader.source().classes().size()),
                            .device = s.options.device});
  s.parameters = s.model->parameters();
  s.optimizer = make_optimizer(recipe.optimizer, *s.model);
  s.schedule = make_schedule(recipe, *s.optimizer, s.loader.batches());
  s.prepare_out();
}

Trainer::~Trainer() = default;
nn::Module& Trainer::model() { return *state_->model; }
const data::Loader& Trainer::loader() const { return state_->loader; }
const std::string& Trainer::resumed_from() const { return state_->resumed_from; }
int64_t Trainer::steps_before() const { return state_->steps_before; }

TrainResult Trainer::train() {
  State& s = *state_;
  TrainResult result;
  std::unique_ptr<diag::Accountant> accountant;
  if (s.options.account) accountant = std::make_unique<diag::Accountant>();
  TrainingLoop(s).run(result);
  if (accountant) result.account = accountant->read();
  return result;
}

void Trainer::save() {
  const State& s = *state_;
  if (s.out.empty()) return;
  save_weights(s.out + "/" + kWeightsFile, *s.model, s.recipe, s.loader.source().classes());
}

std::optional<Evaluation> Trainer::test() {
  const State& s = *state_;
  if (!s.test_loader) return std::nullopt;
  try {
    return evaluate(*s.model, *s.test_loader, s.options.device, [&](double fraction) {
      if (s.options.stage) s.options.stage("evaluate", fraction);
      return !s.stop_asked();
    });
  } catch (const Error&) {
    if (!s.stop_asked()) throw;
    return std::nullopt;
  }
}

TrainResult Trainer::run() {
  TrainResult result = train();
  if (result.stopped) return result;
  save();
  result.test = test();
  return result;
}

}  // namespace brim::train
