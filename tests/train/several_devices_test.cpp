// Several devices that share each batch: a rank of this process for each.
#include <brim/core/allocator.h>
#include <brim/dist/process_group.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <limits>

#include "core/check.h"
#include "message_of.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

std::vector<Device> sims(int count) {
  std::vector<Device> devices;
  for (int k = 0; k < count; ++k) devices.push_back(Device::sim(k));
  return devices;
}

using Weights = std::vector<float>;

/// A network with batch norm; a small one without it where a sanitizer makes steps slow.
constexpr const char* kWithNorm = BRIM_SANITIZED ? "tutorial-cnn" : "resnet18-cifar";

Weights weights_of(Trainer& trainer) {
  Weights all;
  for (const auto& [name, t] : trainer.model().state_dict()) {
    const Weights v = t.detach().to(f32).to_vector<float>();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

class SeveralDevices : public ::testing::Test {
 protected:
  SeveralDevices() {
    tests::write_tiny_cifar(folder / "data", 58);
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.batch = 8;  // the last one has two samples
    recipe.optimizer.lr = 0.01;
  }
  void SetUp() override {
    if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  }
  Weights trained(TrainOptions options) {
    Trainer trainer(recipe, std::move(options));
    trainer.train();
    return weights_of(trainer);
  }
  std::string error_of(TrainOptions options) {
    return tests::message_of<Error>([&] { Trainer(recipe, std::move(options)).train(); });
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST_F(SeveralDevices, OneVirtualAcceleratorEqualsTheCpuBitForBit) {
  Trainer cpu(recipe, {}), sim(recipe, {.devices = sims(1)});
  const TrainResult a = cpu.run(), b = sim.run();
  EXPECT_EQ(weights_of(cpu), weights_of(sim));
  EXPECT_EQ(a.final_loss, b.final_loss);
  ASSERT_TRUE(a.test && b.test);
  EXPECT_EQ(a.test->loss, b.test->loss);
}

TEST_F(SeveralDevices, LearnWhatOneDoesInCompiledSteps) {
  Trainer one(recipe, {}), two(recipe, {.devices = sims(2)});
  const TrainResult a = one.run(), b = two.run();
  EXPECT_NEAR(a.final_loss, b.final_loss, 1e-3);
  EXPECT_EQ(a.images, b.images);
  EXPECT_GT(b.compile.replays, 0);
  EXPECT_EQ(b.compile.fell_back, "");
  ASSERT_TRUE(b.test);
  ASSERT_EQ(b.accounts.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(b.accounts[k].device, Device::sim(static_cast<int>(k)));
    EXPECT_EQ(b.accounts[k].recorded, 1);
    EXPECT_GT(b.accounts[k].account.fraction(diag::Cause::compute), 0) << k;
    EXPECT_GT(b.accounts[k].account.fraction(diag::Cause::communication), 0) << k;
  }
}

/// Threads or processes, one device or several, data on the host or there.
TEST_F(SeveralDevices, PartsOfBatchesDecideTheBits) {
  recipe.model = kWithNorm;
  recipe.input.flip = true;
  TrainOptions few{.max_steps = 3};
  const auto with = [&](std::vector<Device> devices) {
    TrainOptions o = few;
    o.devices = std::move(devices);
    return o;
  };
  const Weights two = trained(with(sims(2)));
  TrainOptions resident = with(sims(2));
  resident.data_on_device = true;
  EXPECT_EQ(trained(resident), two);
  TrainOptions eager = with(sims(2));
  eager.passes = "exact";
  const Weights exact = trained(eager);
  eager.compile = false;
  EXPECT_EQ(trained(eager), exact);

  std::vector<Weights> ranks(2);
  const std::vector<dist::GroupPtr> groups = dist::local_groups(2);
  dist::run_ranks(groups, [&](dist::ProcessGroup& group) {
    TrainOptions o = with({Device::sim(group.rank())});
    o.group = group.shared_from_this();
    ranks[static_cast<size_t>(group.rank())] = trained(std::move(o));
  });
  EXPECT_EQ(ranks[0], two);
  EXPECT_EQ(ranks[1], two);

  recipe.virtual_ranks = 2;
  EXPECT_EQ(trained(with(sims(1))), two);
  eager.devices = {Device::cpu()};
  EXPECT_EQ(trained(eager), exact);
}

/// Whichever rank meets it, the same picture stands in for a corrupt one, and all are counted.
TEST_F(SeveralDevices, ShareBatchesWithCorruptPictures) {
  namespace fs = std::filesystem;
  const char* const root = std::getenv("BRIM_SOURCE_DIR");
  const fs::path good = fs::path(root ? root : ".") / "tests/fuzz/corpus/image/rgb.png";
  recipe.data = folder / "pictures";
  for (int i = 0; i < 242; ++i) {
    const std::string part = i < 240 ? "train/" : "test/";
    const fs::path path =
        recipe.data / fs::path(part + (i % 2 ? "a/" : "b/") + std::to_string(i) + ".png");
    fs::create_directories(path.parent_path());
    fs::copy_file(good, path);
    if (i % 3 == 0 && i < 240) fs::resize_file(path, 20);
  }
  recipe.epochs = 2;
  recipe.input.size = 32;
  recipe.input.flip = true;
  recipe.input.on_corrupt = "skip";
  recipe.validation.fraction = 0.5;  // two batches, one for each rank
  const auto check = [&](const TrainResult& result) {
    EXPECT_EQ(result.images, 240);
    EXPECT_EQ(result.steps, 30);
    ASSERT_TRUE(result.validation);
    EXPECT_EQ(result.validation->samples + result.validation->skipped, 120);
    EXPECT_EQ(result.skipped, 2 * (80 - result.validation->skipped));  // in two epochs
  };
  Trainer two(recipe, {.devices = sims(2)});
  check(two.train());
  const Weights weights = weights_of(two);
  Trainer resident(recipe, {.devices = sims(2), .data_on_device = true});
  check(resident.train());
  EXPECT_EQ(weights_of(resident), weights);
  dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
    Trainer rank(recipe,
                 {.devices = {Device::sim(group.rank())}, .group = group.shared_from_this()});
    check(rank.train());
    EXPECT_EQ(weights_of(rank), weights);
  });
  recipe.virtual_ranks = 2;
  Trainer one(recipe, {.devices = sims(1)});
  check(one.train());
  EXPECT_EQ(weights_of(one), weights);
}

/// Over NCCL; where there is none, as in most runs of this program, it says so.
TEST(SeveralGpus, LearnWhatSeveralVirtualOnesDo) {
  if (Device::count("cuda") < 2 || Device::count("sim") < 2) GTEST_SKIP() << "needs two GPUs";
  const tests::TemporaryFolder folder;
  tests::write_tiny_cifar(folder / "data");
  Recipe recipe = load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.batch = 4;
  recipe.optimizer.lr = 0.01;
  std::vector<double> losses;
  for (const bool compile : {true, false})
    for (const char* devices : {"sim:0,sim:1", "cuda:0,cuda:1"}) {
      Trainer trainer(recipe,
                      {.devices = Device::list(devices), .max_steps = 8, .compile = compile});
      const TrainResult result = trainer.train();
      EXPECT_EQ(result.compile.replays > 0, compile) << devices;
      losses.push_back(result.final_loss);
    }
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-3);
}

TEST_F(SeveralDevices, RunsGoOnWithAnotherNumberOfThem) {
  recipe.virtual_ranks = 2;
  const Weights whole = trained({.devices = sims(2)});
  const std::string out = folder / "run";
  (void)trained({.devices = sims(2), .max_steps = 3, .out = out});
  (void)trained({.devices = sims(1), .max_steps = 3, .resume = out});
  recipe.virtual_ranks = 0;
  if (Device::count("sim") >= 3) {
    EXPECT_NE(error_of({.devices = sims(3), .resume = out}).find("cannot be shared by 3 ranks"),
              std::string::npos);
  }
  Trainer rest(recipe, {.devices = sims(2), .resume = out});
  EXPECT_EQ(rest.steps_before(), 6);
  rest.train();
  EXPECT_EQ(weights_of(rest), whole);
}

TEST_F(SeveralDevices, SynchroniseBatchNorm) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "too slow; SyncBatchNorm.* has what sanitizers look for";
  recipe.model = kWithNorm;
  recipe.sync_batch_norm = true;
  recipe.epochs = 3;
  const std::string out = folder / "run";
  std::vector<std::string> warnings;
  const auto with = [&](int count, int64_t steps) {
    return TrainOptions{.devices = sims(count),
                        .max_steps = steps,
                        .warn = [&](const std::string& w) { warnings.push_back(w); }};
  };
  const auto first_loss = [&](int count) {
    Trainer trainer(recipe, with(count, 1));
    return trainer.train().final_loss;
  };
  EXPECT_NEAR(first_loss(2), first_loss(1), 1e-5);
  TrainOptions o = with(2, 2);
  o.out = out;
  (void)trained(o);
  EXPECT_TRUE(warnings.empty());
  o = with(1, 2);
  o.resume = out;
  (void)trained(o);  // statistics are of all samples, whoever has them
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("in 2 parts and goes on with 1"), std::string::npos) << warnings[0];
  recipe.virtual_ranks = 4;
  EXPECT_NE(error_of({.devices = sims(2)}).find("one part of a batch for each device"),
            std::string::npos);
  recipe.virtual_ranks = 0;
  recipe.model = "tutorial-cnn";
  warnings.clear();
  (void)trained(with(2, 1));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("has no batch norm"), std::string::npos) << warnings[0];
}

TEST_F(SeveralDevices, ShareTheValidation) {
  tests::write_tiny_cifar(folder / "more", 600);
  recipe.data = folder / "more";
  recipe.validation.fraction = 0.55;  // 330 pictures in 4 batches, the last one smaller
  recipe.metrics = {"accuracy", "f1", "top5"};
  recipe.virtual_ranks = 2;
  recipe.epochs = 1;
  Trainer whole(recipe, {.devices = sims(1)}), shared(recipe, {.devices = sims(2)});
  const TrainResult a = whole.train(), b = shared.train();
  ASSERT_TRUE(a.validation && b.validation);
  EXPECT_EQ(b.validation->samples, 330);
  EXPECT_EQ(a.validation->samples, 330);
  EXPECT_NEAR(a.validation->loss, b.validation->loss, 1e-12);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(a.validation->metrics[i].value, b.validation->metrics[i].value) << i;
  ASSERT_EQ(b.validation->classes.size(), 10u);
  for (size_t i = 0; i < 10; ++i)
    EXPECT_EQ(a.validation->classes[i].samples, b.validation->classes[i].samples);
}

TEST_F(SeveralDevices, HoldAsMuchEach) {
  recipe.model = kWithNorm;
  std::vector<int64_t> before;
  for (const Device device : sims(2)) {
    Allocator::of(device).reset_peak();
    before.push_back(Allocator::of(device).stats().live);
  }
  (void)trained({.devices = sims(2), .max_steps = 4});
  std::vector<double> peaks;
  for (size_t k = 0; k < 2; ++k)
    peaks.push_back(static_cast<double>(
        Allocator::of(Device::sim(static_cast<int>(k))).stats().peak_live - before[k]));
  // How many batches lie ready beside the step is a matter of time: of 4 pictures, up to three.
  constexpr double kBatches = 3 * 4 * 3 * 32 * 32 * sizeof(float);
  EXPECT_NEAR(peaks[1], peaks[0], 0.02 * peaks[0] + kBatches);
}

TEST_F(SeveralDevices, AStopIsOneOfAll) {
  std::atomic<int> stop{0};
  TrainOptions o{.devices = sims(2), .out = folder / "run", .stop = &stop};
  o.progress = [&](const Progress&) { stop = 1; };
  recipe.epochs = 100;
  Trainer trainer(recipe, o);
  const TrainResult result = trainer.train();
  EXPECT_TRUE(result.stopped);
  EXPECT_GT(result.steps, 0);
}

/// Nobody waits for the part of a rank that was stopped.
TEST_F(SeveralDevices, AStopOfTheValidationIsOneOfAll) {
  recipe.validation.fraction = 0.5;
  recipe.batch = 4;
  recipe.metrics = {"accuracy"};
  tests::write_tiny_cifar(folder / "more", 600);  // three batches of 100
  recipe.data = folder / "more";
  const auto check = [&](TrainOptions o, std::atomic<int>& stop, bool stops) {
    std::atomic<bool> stops_now{false};
    o.stop = &stop;
    o.max_steps = 1;
    o.stage = [&](const char*, double fraction) {
      if (stops_now && fraction >= 0.4) stop = 1;
    };
    Trainer trainer(recipe, std::move(o));
    (void)trainer.train();
    stops_now = stops;
    EXPECT_FALSE(trainer.validate());
    stops_now = false;
    stop = 0;
    const std::optional<Evaluation> whole = trainer.validate();
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->samples, 300);
  };
  std::atomic<int> stop{0};
  check({.devices = sims(2)}, stop, true);
  dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
    std::atomic<int> own{0};  // only rank 1 is stopped
    check({.devices = {Device::sim(group.rank())}, .group = group.shared_from_this()}, own,
          group.rank() == 1);
  });
}

TEST_F(SeveralDevices, WriteShardsTogether) {
  recipe.virtual_ranks = 4;
  recipe.epochs = 2;
  const Weights whole = trained({.devices = sims(2)});
  const std::string run = folder / "run";
  const CheckpointOptions shards{.every_steps = 3, .background = true, .sharded = true};
  (void)trained({.devices = sims(2), .max_steps = 5, .out = run, .checkpoint = shards});
  const std::string newest = run + "/checkpoint-00000005";
  EXPECT_TRUE(std::filesystem::exists(newest + "/model-00002-of-00002.safetensors"));
  EXPECT_EQ(read_weights_info(WeightsFile(newest + "/model.safetensors")).recipe->model,
            "tutorial-cnn");
  (void)trained({.devices = sims(1), .max_steps = 5, .resume = run, .checkpoint = shards});
  EXPECT_EQ(trained({.devices = sims(2), .resume = run, .checkpoint = shards}), whole);
  // By time, which one rank reads: all write at the same step.
  recipe.epochs = 60;
  const CheckpointOptions timed{.every_seconds = 0.001, .background = true, .sharded = true};
  Trainer trainer(recipe, {.devices = sims(2), .out = folder / "timed", .checkpoint = timed});
  const TrainResult result = trainer.train();
  EXPECT_GT(result.checkpoints, recipe.epochs);
  EXPECT_EQ(result.checkpoint_failures, 0);
}

TEST_F(SeveralDevices, ErrorsOfAnyAreThrown) {
  TrainOptions o{.devices = sims(2)};
  o.first_step = [] { raise<ValueError>("not today"); };
  EXPECT_EQ(error_of(o), "not today");
  recipe.optimizer.lr = 1e9;
  const std::string error = error_of({.devices = sims(2)});
  EXPECT_NE(error.find("use a lower learning rate"), std::string::npos) << error;
}

/// The loss is infinite where one sample is, in whatever batch.
class Bursting final : public Task {
 public:
  Tensor loss(const Tensor& output, const data::Batch& batch, bool) const override {
    for (const int64_t sample : batch.samples)
      if (sample == 17) met_on = output.device().index;
    return output.mean() + batch["weight"].mean();
  }
  std::vector<std::string> metrics() const override { return {}; }
  static inline std::atomic<int> met_on{-1};
};

TEST_F(SeveralDevices, NameThePartThatWasNotFiniteFirst) {
  register_task("bursting", [](const Recipe&) { return std::make_unique<Bursting>(); });
  register_data("bursting", [](const std::string&, const Recipe&, const DataRequest& r) {
    if (r.split == data::Split::test) throw data::NoSuchSplit("[data] bursting has no test split");
    Tensor weight = zeros({40});
    weight.slice(0, 17, 18).fill_(std::numeric_limits<double>::infinity());
    return TaskData{.samples = data::from_tensors({{"x", ones({40, 3})}, {"weight", weight}}),
                    .outputs = 2};
  });
  recipe = {.task = "bursting", .model = "mlp", .data = "bursting", .epochs = 1, .batch = 4};
  recipe.optimizer.lr = 1e-3;
  const auto error = [&](bool compile, int reports) {
    return error_of({.devices = sims(2), .compile = compile, .reports_per_epoch = reports});
  };
  const std::string at_once = error(false, 1000);
  const int device = Bursting::met_on;
  ASSERT_GE(device, 0);
  const std::string who = " in part " + std::to_string(device + 1) +
                          " of 2 of the batch, which device " + std::to_string(device) +
                          " computed)";
  EXPECT_TRUE(at_once.find(who) != std::string::npos) << at_once;
  const size_t begin = at_once.find(" (first at step ");
  ASSERT_NE(begin, std::string::npos) << at_once;
  const std::string first = at_once.substr(begin, at_once.find(')', begin) - begin + 1);
  EXPECT_TRUE(at_once.find(first.substr(11, first.find(',') - 11) + " (") != std::string::npos)
      << "step by step, it is the newest: " << at_once;
  for (const bool compile : {false, true}) {
    const std::string late = error(compile, 1);
    EXPECT_TRUE(late.find("at epoch 1 step 10" + first) != std::string::npos) << late;
  }
}

/// Its validation fails on the second device.
class BadValidation final : public Task {
 public:
  Tensor loss(const Tensor& output, const data::Batch& batch, bool training) const override {
    if (!training && output.device().index == 1) raise<ValueError>("a bad validation");
    return output.mean() + batch["weight"].mean();
  }
  std::vector<std::string> metrics() const override { return {}; }
};

/// Nobody waits for parts of a checkpoint that this rank does not write.
TEST_F(SeveralDevices, AValidationThatFailsEndsAllWithShards) {
  register_task("bad-validation", [](const Recipe&) { return std::make_unique<BadValidation>(); });
  register_data("bad-validation", [](const std::string&, const Recipe&, const DataRequest& r) {
    if (r.split == data::Split::test) throw data::NoSuchSplit("[data] there is no test split");
    return TaskData{.samples = data::from_tensors({{"x", ones({40, 3})}, {"weight", zeros({40})}}),
                    .outputs = 2};
  });
  recipe = {.task = "bad-validation", .model = "mlp", .data = "bad-validation", .epochs = 1};
  recipe.batch = 4;
  recipe.validation.fraction = 0.2;
  EXPECT_EQ(error_of({.devices = sims(2), .out = folder / "run", .checkpoint = {.sharded = true}}),
            "a bad validation");
}

TEST_F(SeveralDevices, BadOptions) {
  const auto says = [&](TrainOptions options, const std::string& part) {
    const std::string error = error_of(std::move(options));
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  says({.devices = {}}, "no device; name one or more");
  says({.devices = {Device::sim(0), Device::sim(0)}}, "sim:0 is there twice");
  recipe.batch = 7;
  says({.devices = sims(2)}, "a batch of 7 has no 2 equal parts");
  recipe.batch = 8;
  recipe.data = folder / "absent";
  says({.devices = sims(2)}, "absent");
  dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
    says({.devices = sims(2), .group = group.shared_from_this()},
         "each of several processes has one device, not 2");
  });
}

}  // namespace
}  // namespace brim::train
