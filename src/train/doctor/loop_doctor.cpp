// See <brim/train/loop_doctor.h>.
#include <brim/train/loop_doctor.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/stream.h>
#include <brim/diag/account.h>
#include <brim/plan/compile.h>

#include "core/check.h"
#include "plan/replays.h"
#include "train/doctor/changes.h"
#include "train/doctor/stopwatch.h"
#include "train/doctor/trials.h"
#include "train/object_state.h"

namespace brim::train {
namespace {

using diag::Cause;
using LoopChanges = std::vector<Change<LoopSetting>>;

const std::string kGradientOf = "gradient of ";

/// A tensor where a batch has it.
template <class Batch, class F>
void for_each_tensor(Batch& batch, const F& f) {
  for (auto* const tensor : {&batch.x, &batch.y})
    if (tensor->defined()) f(*tensor);
  for (auto& field : batch.fields) f(field.tensor);
}

/// Called with a batch, it runs a plan of the step.
LoopDoctor::Step compiled(const LoopDoctor::Step& step, const std::string& passes) {
  auto compiler = std::make_shared<plan::Compiler>(CompileOptions{.passes = passes});
  return [compiler, step](const data::Batch& batch) {
    std::vector<Tensor> inputs;
    for_each_tensor(batch, [&](const Tensor& tensor) { inputs.push_back(tensor); });
    (void)compiler->run(inputs, [&](std::span<const Tensor> recorded) -> std::vector<Tensor> {
      data::Batch like{.x = batch.x, .y = batch.y, .fields = batch.fields};
      size_t next = 0;
      for_each_tensor(like, [&](Tensor& tensor) { tensor = recorded[next++]; });
      step(like);
      return {};
    });
  };
}

/// Copies of what the objects hold, put back at the end.
class Saved {
 public:
  explicit Saved(const std::vector<Checkpoint::State>& states)
      : states_(states), random_(Generator::global().state()), copies_(copies(states)) {}
  /// All that can be; throws what the first object threw.
  void put_back() const {
    Generator::global().set_state(random_);
    std::exception_ptr first;
    for (size_t i = 0; i < states_.size(); ++i) try {
        states_[i].load(copies_[i]);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    if (first) std::rethrow_exception(first);
  }

  static std::vector<StateDict> copies(const std::vector<Checkpoint::State>& states) {
    const NoGrad guard;
    std::vector<StateDict> copies;
    for (const Checkpoint::State& state : states) {
      copies.push_back(state.save());
      for (auto& [_, tensor] : copies.back()) tensor = tensor.clone();
    }
    return copies;
  }

 private:
  const std::vector<Checkpoint::State>& states_;
  const RandomKey random_;
  const std::vector<StateDict> copies_;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(Device::cpu()).contiguous(), y = b.to(Device::cpu()).contiguous();
  return x.numel() == 0 ||
         std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

/// But for gradients, which live inside of a plan.
bool same_bits(const std::vector<StateDict>& a, const std::vector<StateDict>& b) {
  const auto kept = [](const StateDict& all) {
    std::vector<std::pair<std::string, Tensor>> some;
    for (const auto& entry : all)
      if (!entry.first.starts_with(kGradientOf)) some.emplace_back(entry);
    return some;
  };
  return std::ranges::equal(a, b, [&](const StateDict& x, const StateDict& y) {
    return std::ranges::equal(kept(x), kept(y), [](const auto& left, const auto& right) {
      return left.first == right.first && same_bits(left.second, right.second);
    });
  });
}

/// At least, however slow they are: what a step does only now and then must come.
constexpr int64_t kStepsOfACheck = 16;

/// A module with the gradients of its parameters, which it may hold between steps.
Checkpoint::State state_with_gradients(nn::Module& module) {
  const Checkpoint::State weights = state_of(module);
  return {.save =
              [&module, weights] {
                StateDict all = weights.save();
                for (const auto& [name, p] : module.named_parameters())
                  if (const Tensor grad = p.grad(); grad.defined()) all[kGradientOf + name] = grad;
                return all;
              },
          .load =
              [&module, weights](const StateDict& all) {
                StateDict own;
                for (const auto& [name, tensor] : all)
                  if (!name.starts_with(kGradientOf)) own.emplace(name, tensor);
                weights.load(own);
                for (auto& [name, p] : module.named_parameters()) {
                  const auto grad = all.find(kGradientOf + name);
                  Tensor(p).set_grad(grad == all.end() ? Tensor() : grad->second.clone());
                }
              }};
}

}  // namespace

struct LoopDoctor::Impl final : Subject<LoopSetting> {
  Impl(const data::Loader& l, Device d, Step s, LoopSetting setting, DoctorOptions options)
      : loader(l),
        device(d),
        step(std::move(s)),
        now(std::move(setting)),
        how(std::move(options)) {}

  std::optional<ShortRun> run(const LoopSetting& setting) override;
  LoopChanges changes(const LoopSetting& setting, const ShortRun& run) const override;
  std::optional<LearningCheck> check(const LoopSetting&, const LoopSetting&, double) override {
    return {};  // no change is one of what is learned
  }
  std::optional<LoopSetting> without_input(const LoopSetting& setting) const override {
    if (setting.resident) return {};
    LoopSetting repeated = setting;
    repeated.repeat_batch = true;
    return repeated;
  }

  /// Throws ValueError where a plan does not do what the step does.
  void check_plan();

  bool stopped() const { return how.stop && how.stop->load() != 0; }
  data::DeviceLoader feed(const LoopSetting& setting,
                          std::function<bool(double)> progress = {}) const {
    return {loader.with_workers(setting.workers), device,
            data::DeviceLoaderOptions{.augment_on = setting.augment_on,
                                      .resident = setting.resident,
                                      .progress = std::move(progress)}};
  }
  Step step_of(const LoopSetting& setting) const {
    return setting.compile ? compiled(step, setting.passes) : step;
  }
  std::optional<ShortRun> measure(const LoopSetting& setting);
  /// With all that is saved put back, whatever ends `f`.
  template <class F>
  auto unchanged(const F& f);

  const data::Loader loader;
  const Device device;
  const Step step;
  const LoopSetting now;
  const DoctorOptions how;
  std::vector<Checkpoint::State> states;
  int64_t steps_seen = 0;  // of a short training as it is
  bool plan_checked = false;
};

template <class F>
auto LoopDoctor::Impl::unchanged(const F& f) {
  const Saved saved(states);
  try {
    auto result = f();
    saved.put_back();
    return result;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    try {
      saved.put_back();
    } catch (...) {  // what went wrong first is told
    }
    std::rethrow_exception(error);
  }
}

std::optional<ShortRun> LoopDoctor::Impl::run(const LoopSetting& setting) {
  if (stopped()) return {};
  if (setting.compile && !now.compile) check_plan();
  return unchanged([&] { return measure(setting); });
}

/// It repeats one run of the step: what that does now and then, or counts by itself, is lost.
void LoopDoctor::Impl::check_plan() {
  if (plan_checked) return;
  const auto trained = [&](const Step& train) {
    return unchanged([&] {
      data::DeviceLoader feed = this->feed(now);
      int64_t steps = 0;
      for (int64_t epoch = 0; steps < steps_seen && !stopped(); ++epoch)
        for (const data::Batch& batch : feed.epoch(epoch)) {
          train(batch);
          if (++steps >= steps_seen || stopped()) break;
        }
      synchronize(device);
      return Saved::copies(states);
    });
  };
  const bool is_same = same_bits(trained(step), trained(compiled(step, "exact")));
  BRIM_CHECK(
      is_same || stopped(), ValueError,
      "[doctor] {} steps by a plan do not what they do as they are: the step counts, or does "
      "something now and then, which a plan does not repeat",
      steps_seen);
}

std::optional<ShortRun> LoopDoctor::Impl::measure(const LoopSetting& setting) {
  MachineWatch machine;
  std::optional<data::DeviceLoader> opened;
  try {
    opened.emplace(this->feed(setting, [this](double) { return !stopped(); }));
  } catch (const Error&) {
    if (stopped()) return {};  // amid the upload
    throw;
  }
  data::DeviceLoader& feed = *opened;
  const Step train = step_of(setting);
  const diag::Accountant accountant({device});
  Stopwatch watch(how.seconds, device, [&] { return accountant.read_so_far(device); });
  const bool by_records = device.kind == DeviceKind::cuda;
  const int64_t replays = plan::replays_of_thread();
  int64_t steps = 0;
  bool is_measured = false;
  const auto train_on = [&](const data::Batch& batch) {
    train(batch);
    ++steps;
    if (by_records && steps % kRecordsEvery != 0) return;
    if (by_records) synchronize(device);
    is_measured = watch.look(steps, feed.loader().slots(), 1);
  };
  for (int64_t epoch = 0; !is_measured && !stopped(); ++epoch) {
    const int64_t before = steps;
    data::DeviceEpoch batches = feed.epoch(epoch);
    while (!is_measured && !stopped()) {
      const data::Batch* const batch = batches.next();
      if (!batch) break;
      do train_on(*batch);
      while (setting.repeat_batch && !is_measured && !stopped());
    }
    BRIM_CHECK(steps > before || stopped(), ValueError,
               "[doctor] an epoch of the loader has no batch to train on");
  }
  synchronize(device);
  if (!is_measured) return {};
  if (!setting.compile && !setting.repeat_batch) steps_seen = std::max(steps, kStepsOfACheck);
  ShortRun run = watch.run();
  run.workers = feed.loader().workers();
  run.batch = loader.options().batch;
  run.augments_on_host = !feed.loader().options().raw;
  run.has_pictures = loader.has_pictures();
  run.runs_plans = plan::replays_of_thread() > replays;
  run.evidence = machine.evidence();
  run.evidence.workers = data::sum(feed.loader().worker_accounts());
  run.evidence.worker_count = run.workers;
  return run;
}

LoopChanges LoopDoctor::Impl::changes(const LoopSetting& setting, const ShortRun& run) const {
  LoopChanges changes;
  const auto propose = [&](std::string what, std::string options, LoopSetting after,
                           std::vector<Cause> causes, Effect effect = Effect::none) {
    changes.push_back(
        {std::move(what), std::move(options), std::move(after), std::move(causes), effect});
  };
  // Else the plan is the step's own, or nothing tells whether one does the same.
  const bool is_eager = !setting.compile && !run.runs_plans && !states.empty();
  if (how.allow_rounding && (is_eager || (setting.compile && !setting.passes.empty()))) {
    LoopSetting after = setting;
    after.compile = true, after.passes.clear();
    propose("a compiled step (all passes)", "compile(step)", after, launch_causes(),
            Effect::rounding);
  }
  if (is_eager) {
    LoopSetting after = setting;
    after.compile = true, after.passes = "exact";
    propose("a compiled step (exact passes)", "compile(step, {.passes = \"exact\"})", after,
            launch_causes());
  }
  if (setting.resident) return changes;
  for (const int workers : more_workers(run)) {
    LoopSetting after = setting;
    after.workers = workers;
    propose(workers_text(workers), fmt::format("LoaderOptions{{.workers = {}}}", workers), after,
            {Cause::input});
  }
  if (!run.has_pictures || loader.options().collate || loader.options().buckets) return changes;
  if (!device.is_cpu() && run.augments_on_host) {
    LoopSetting after = setting;
    after.augment_on = data::AugmentOn::device;
    propose("pictures augmented on the device",
            "DeviceLoaderOptions{.augment_on = data::AugmentOn::device}", after, input_causes());
  }
  LoopSetting after = setting;
  after.resident = true;
  after.augment_on = data::AugmentOn::automatic;
  propose("data on the device", "DeviceLoaderOptions{.resident = true}", after, input_causes());
  return changes;
}

LoopDoctor::LoopDoctor(const data::Loader& loader, Device device, Step step, LoopSetting now,
                       DoctorOptions how) {
  check_doctor_options(how);
  BRIM_CHECK(step != nullptr, ValueError, "[doctor] no step to run; give a function of a batch");
  impl_ = std::make_unique<Impl>(loader, device, std::move(step), std::move(now), std::move(how));
}
LoopDoctor::~LoopDoctor() = default;

void LoopDoctor::keep(nn::Module& module) { keep(state_with_gradients(module)); }
void LoopDoctor::keep(optim::Optimizer& optimizer) { keep(state_of(optimizer)); }
void LoopDoctor::keep(optim::Schedule& schedule) { keep(state_of(schedule)); }
void LoopDoctor::keep(optim::GradScaler& scaler) { keep(state_of(scaler)); }
void LoopDoctor::keep(Tensor& value) {
  keep({.save =
            [&value] {
              return value.defined() ? StateDict{{"", value.detach()}} : StateDict();
            },
        .load =
            [&value](const StateDict& state) {
              const NoGrad guard;
              if (state.empty())
                value = Tensor();
              else
                value.copy_(state.at(""));
            }});
}
void LoopDoctor::keep(Checkpoint::State state) { impl_->states.push_back(std::move(state)); }

Diagnosis LoopDoctor::diagnose() {
  return Trials<LoopSetting>(*impl_, impl_->now, impl_->how).diagnose();
}
LoopCure LoopDoctor::cure() { return Trials<LoopSetting>(*impl_, impl_->now, impl_->how).cure(); }

data::DeviceLoader LoopDoctor::feed(const LoopSetting& setting) const {
  return impl_->feed(setting);
}
LoopDoctor::Step LoopDoctor::step(const LoopSetting& setting) const {
  return impl_->step_of(setting);
}

}  // namespace brim::train
