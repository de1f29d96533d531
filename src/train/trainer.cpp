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
      loader(make_loader(r, data::Split::train, true, options.workers, open_progress(),
                         options.devices[0])) {
  // Now, so that a damaged test split is not found out after hours of training.
  Recipe test = r;
  test.batch = std::max<int64_t>(r.batch, 100);
  try {
    test_loader = make_loader(test, data::Split::test, false, options.workers, open_progress(),
                              options.devices[0]);
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
  BRIM_CHECK(!options.devices.empty(), ValueError, "[train] no device; name one or more");
  for (const Device device : options.devices) {
    BRIM_CHECK(
        recipe.precision != "tf32" || device.kind != DeviceKind::cuda, NotImplemented,
        "[train] precision tf32 is not implemented on {}, whose products are computed in full "
        "f32; use --precision fp32 or bf16",
        device.str());
    check_available(device);
  }
  state_ = std::make_unique<State>(recipe, std::move(options));
  State& s = *state_;
  manual_seed(recipe.seed);
  const auto make = [&s](Device device) {
    const auto classes = static_cast<int64_t>(s.loader.source().classes().size());
    return nn::make_model(s.recipe.model, {.classes = classes, .device = device});
  };
  s.model = make(s.options.devices[0]);
  s.parameters = s.model->parameters();
  s.optimizer = make_optimizer(recipe.optimizer, *s.model);
  s.schedule = make_schedule(recipe, *s.optimizer, s.loader.batches());
  if (autocast_dtype(recipe) == DType::f16) s.scaler.emplace(s.options.devices[0]);
  const RandomKey drawn = Generator::global().state();
  s.replicas.emplace(*s.model, s.options.devices, make);
  Generator::global().set_state(drawn);  // the copies' own initial weights are never used
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
  for (const Device device : s.options.devices) synchronize(device);  // initial weights
  if (s.options.account) accountant = std::make_unique<diag::Accountant>(s.options.devices);
  TrainingLoop(s).run(result);
  if (!accountant) return result;
  for (const Device device : s.options.devices)
    result.accounts.push_back({device, accountant->read(device)});
  result.account = result.accounts[0].account;
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
    return evaluate(*s.model, *s.test_loader, s.options.devices[0], [&](double fraction) {
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
