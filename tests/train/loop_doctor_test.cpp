// The doctor of loops of one's own: finds and cures them, and leaves what they hold as it was.
#include <brim/optim/sgd.h>
#include <brim/train/loop_doctor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <brim/core/random.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/plan/compile.h>

#include "message_of.h"
#include "sanitized.h"

namespace brim::train {
namespace {

using diag::Cause;

/// 400 pictures' worth of numbers, each of which takes `sample_ms` to make.
class SlowRows final : public data::Dataset {
 public:
  explicit SlowRows(double sample_ms) : sample_ms_(sample_ms) {}
  int64_t size() const override { return 400; }
  void get(int64_t index, data::Sample& out) const override {
    if (sample_ms_ > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(sample_ms_));
    const std::span<float> x = out.make<float>("x", {3, 32, 32});
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((static_cast<size_t>(index) + 3 * i) % 7) - 3;
    out.set<int64_t>("y", index % 2);
  }

 private:
  const double sample_ms_;
};

class Nothing final : public data::IterableDataset {
 public:
  void begin(int64_t) override {}
  bool next(data::Sample&) override { return false; }
};

/// A loop of one's own, which begins with the same weights each time.
struct OwnLoop {
  explicit OwnLoop(Device device) {
    manual_seed(1);
    net = nn::make_model("tutorial-cnn", {.classes = 10, .device = device});
    optimizer = std::make_unique<optim::SGD>(net->named_parameters(),
                                             optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
    step = [this](const data::Batch& batch) {
      optimizer->zero_grad();
      cross_entropy((*net)(batch.x), batch.y).backward();
      optimizer->step();
      ++runs;
    };
  }
  void keep(LoopDoctor& doctor) const {
    doctor.keep(*net);
    doctor.keep(*optimizer);
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& [_, p] : net->named_parameters()) {
      const std::vector<float> values = p.to(Device::cpu()).to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  std::unique_ptr<nn::Module> net;
  std::unique_ptr<optim::SGD> optimizer;
  LoopDoctor::Step step;
  int runs = 0;
};

data::Loader slow_loader(double sample_ms) {
  return data::Loader(std::make_shared<SlowRows>(sample_ms), {.batch = 4, .workers = 1});
}

data::Loader pictures() {
  return data::Loader(data::Source::open("shapes10", data::Split::train),
                      {.steps = {data::HorizontalFlip{}}}, {.batch = 100, .workers = 1});
}

const DoctorOptions kHow{.seconds = 0.05, .max_pairs = 5};

TEST(LoopDoctorTest, FindsAndCuresAStarvingLoop) {
  const OwnLoop loop(Device::cpu());
  // Slow beside a step, even where a sanitizer makes that slow and others take the cores.
  LoopDoctor doctor(slow_loader(BRIM_SANITIZED ? 20 : 2), Device::cpu(), loop.step, {}, kHow);
  loop.keep(doctor);
  const std::vector<float> before = loop.weights();
  const Diagnosis found = doctor.diagnose();
  EXPECT_GT(loop.runs, 10);
  EXPECT_EQ(loop.weights(), before);
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].cause, Cause::input);
  EXPECT_GT(found.causes[0].share.value, 0.5);
  EXPECT_TRUE(found.causes[0].because.at(0).starts_with("1 worker: "));
  ASSERT_TRUE(found.without_input);
  EXPECT_GT(found.without_input->low, 1.5);

  if (BRIM_SANITIZED) return;  // its pace is no training's
  const LoopCure cure = doctor.cure();
  EXPECT_EQ(loop.weights(), before);
  ASSERT_FALSE(cure.changes.empty());
  EXPECT_TRUE(cure.same_bits);
  EXPECT_NE(cure.setting.workers.value_or(1), 1);
  EXPECT_TRUE(std::ranges::any_of(cure.changes, [](const std::string& c) {
    return c.starts_with("LoaderOptions{.workers = ");
  }));
  EXPECT_GT(cure.speedup.value_or(Estimate()).low, 1.3);
}

TEST(LoopDoctorTest, NoSettingChangesABit) {
  const Device device = Device::sim(0);
  const auto trained = [&](const LoopSetting& setting, bool examined) {
    const OwnLoop loop(device);
    LoopDoctor doctor(pictures(), device, loop.step, {}, kHow);
    loop.keep(doctor);
    if (examined) (void)doctor.diagnose();
    data::DeviceLoader feed = doctor.feed(setting);
    const LoopDoctor::Step train = doctor.step(setting);
    int64_t steps = 0;
    for (const data::Batch& batch : feed.epoch(0)) {
      train(batch);
      if (++steps == 5) break;
    }
    return loop.weights();
  };
  const std::vector<float> as_it_is = trained({}, false);
  EXPECT_EQ(trained({}, true), as_it_is);
  EXPECT_EQ(trained({.workers = 3}, false), as_it_is);
  EXPECT_EQ(trained({.augment_on = data::AugmentOn::device}, false), as_it_is);
  EXPECT_EQ(trained({.compile = true, .passes = "exact"}, true), as_it_is);
}

const Trial* plan_tried(const LoopCure& cure) {
  const auto plan =
      std::ranges::find(cure.trials, "compile(step, {.passes = \"exact\"})", &Trial::options);
  return plan == cure.trials.end() ? nullptr : &*plan;
}

/// A step that is compiled already is left alone, and what a plan cannot repeat ends nothing.
TEST(LoopDoctorTest, TriesAPlanOfAnEagerStep) {
  const OwnLoop loop(Device::sim(0));
  auto compiled = compile([&](const Tensor& x, const Tensor& y) { loop.step({.x = x, .y = y}); });
  double sum = 0;
  const LoopDoctor::Step with_plan = [&](const data::Batch& b) { compiled(b.x, b.y); };
  const LoopDoctor::Step that_reads = [&](const data::Batch& b) {
    const Tensor loss = cross_entropy((*loop.net)(b.x), b.y);
    loss.backward();
    sum += loss.item();
  };
  const std::vector<float> before = loop.weights();
  for (const LoopDoctor::Step* step : {&loop.step, &with_plan, &that_reads}) {
    DoctorOptions how{.seconds = 0.03, .max_pairs = 3};
    how.least_gain = 0;  // whatever takes time may be treated
    LoopDoctor doctor(pictures(), Device::sim(0), *step, {.resident = true}, how);
    loop.keep(doctor);
    const LoopCure cure = doctor.cure();
    const Trial* const plan = plan_tried(cure);
    EXPECT_EQ(plan != nullptr, step != &with_plan);
    EXPECT_EQ(loop.weights(), before);
    if (step != &that_reads) continue;
    EXPECT_EQ(plan->verdict, Verdict::failed);
    EXPECT_NE(plan->failure.find("item"), std::string::npos) << plan->failure;
    EXPECT_FALSE(cure.setting.compile);
  }
}

/// A plan of its first run would never update the weights, and be the faster for it.
TEST(LoopDoctorTest, AStepThatCountsIsNoPlan) {
  const OwnLoop loop(Device::sim(0));
  int runs = 0;
  const LoopDoctor::Step counting = [&](const data::Batch& batch) {
    loop.optimizer->zero_grad();
    cross_entropy((*loop.net)(batch.x), batch.y).backward();
    if (++runs % 4 == 0) loop.optimizer->step();
  };
  DoctorOptions how{.seconds = 0.03, .max_pairs = 3};
  how.least_gain = 0;
  how.allow_rounding = true;
  LoopDoctor doctor(pictures(), Device::sim(0), counting, {.resident = true}, how);
  loop.keep(doctor);
  const std::vector<float> before = loop.weights();
  const LoopCure cure = doctor.cure();
  const Trial* const plan = plan_tried(cure);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->verdict, Verdict::failed);
  // How far it has counted depends on the time that the runs before it took.
  const bool in_its_first_runs = plan->failure.starts_with("[compile]");
  EXPECT_TRUE(in_its_first_runs || plan->failure.find("now and then") != std::string::npos)
      << plan->failure;
  EXPECT_FALSE(cure.setting.compile);
  EXPECT_EQ(loop.weights(), before);
  for (const Tensor& p : loop.net->parameters()) EXPECT_FALSE(p.grad().defined());

  LoopDoctor blind(pictures(), Device::sim(0), loop.step, {.resident = true}, how);
  EXPECT_EQ(plan_tried(blind.cure()), nullptr) << "nothing tells what it would change";
}

TEST(LoopDoctorTest, WhateverIsKeptIsPutBack) {
  const OwnLoop loop(Device::cpu());
  optim::CosineAnnealingLR schedule(*loop.optimizer, {.T_max = 1000});
  Tensor sum = zeros({}), first;
  int64_t count = 3;
  LoopDoctor doctor(slow_loader(0), Device::cpu(),
                    [&](const data::Batch& batch) {
                      loop.step(batch);
                      schedule.step();
                      sum.add_(rand({}));
                      first = rand({2});
                      ++count;
                    },
                    {}, {.seconds = 0.02});
  loop.keep(doctor);
  doctor.keep(schedule);
  doctor.keep(sum);
  doctor.keep(first);
  doctor.keep({.save =
                   [&] {
                     return StateDict{{"count", Tensor::from<int64_t>({count}, {1})}};
                   },
               .load = [&](const StateDict& s) { count = s.at("count").to_vector<int64_t>()[0]; }});
  const RandomKey random = Generator::global().state();
  const double rate = loop.optimizer->lr();
  (void)doctor.diagnose();
  EXPECT_GT(loop.runs, 10);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(sum.item(), 0);
  EXPECT_FALSE(first.defined());
  EXPECT_EQ(loop.optimizer->lr(), rate);
  EXPECT_EQ(Generator::global().state().offset, random.offset);
}

TEST(LoopDoctorTest, AStepThatFailsEndsItWithNothingChanged) {
  const OwnLoop loop(Device::cpu());
  int runs = 0;
  LoopDoctor doctor(
      slow_loader(0), Device::cpu(),
      [&](const data::Batch& batch) {
        loop.step(batch);
        if (++runs == 5) throw ValueError("the step is tired");
      },
      {}, kHow);
  loop.keep(doctor);
  const std::vector<float> before = loop.weights();
  EXPECT_EQ(tests::message_of([&] { (void)doctor.diagnose(); }), "the step is tired");
  EXPECT_EQ(loop.weights(), before);
}

TEST(LoopDoctorTest, AStopEndsItAndKeepsNothing) {
  const OwnLoop loop(Device::cpu());
  for (const int after : {1, 20, 60}) {
    std::atomic<int> stop{0};
    int runs = 0;
    DoctorOptions how = kHow;
    how.stop = &stop;
    LoopDoctor doctor(
        slow_loader(2), Device::cpu(),
        [&](const data::Batch& batch) {
          loop.step(batch);
          if (++runs == after) stop = 2;
        },
        {}, how);
    loop.keep(doctor);
    const std::vector<float> before = loop.weights();
    const LoopCure cure = doctor.cure();
    EXPECT_EQ(runs, after);
    EXPECT_TRUE(cure.changes.empty());
    EXPECT_EQ(loop.weights(), before);
  }
}

TEST(LoopDoctorTest, WhatCannotBeExaminedIsTold) {
  EXPECT_NE(tests::message_of([] {
              LoopDoctor(slow_loader(0), Device::cpu(), nullptr);
            }).find("[doctor] no step to run"),
            std::string::npos);
  const auto idle = [](const data::Batch&) {};
  EXPECT_NE(tests::message_of([&] {
              LoopDoctor(slow_loader(0), Device::cpu(), idle, {}, {.seconds = 0});
            }).find("[doctor] trials of 0 s"),
            std::string::npos);
  const data::Loader none(std::make_shared<Nothing>(), {.shuffle = false});
  EXPECT_NE(tests::message_of([&] {
              (void)LoopDoctor(none, Device::cpu(), idle, {}, kHow).diagnose();
            }).find("no batch to train on"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::train
