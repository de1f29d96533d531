// Loops of one's own that are stopped, killed, damaged or out of disk: what goes on from a
// checkpoint equals the loop that was never stopped, bit for bit, and what went wrong is told.
#include <brim/train/checkpoint.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include <brim/brim.h>

#include "data/pictures.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "train/full_disk.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;

/// Random numbers in every step, and buffers that change in every step.
struct DropNet : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 3, .out = 4, .kernel = 3});
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", {.features = 4});
  nn::Dropout& drop = add<nn::Dropout>("drop", {.p = 0.5});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 4 * 6 * 6, .out = 10});
  Tensor forward(const Tensor& x) override { return fc(drop(relu(norm(conv(x)))).flatten(1)); }
};

constexpr int64_t kEpochs = 3, kSteps = 27;  // 60 pictures in batches of 7

data::Loader make_loader(int64_t batch = 7, uint64_t seed = 5) {
  return data::Loader(std::make_shared<tests::RandomPictures>(60, 8, 8),
                      {{data::HorizontalFlip{}}, {}}, {.batch = batch, .workers = 1, .seed = seed});
}

/// All that a loop has.
struct Loop {
  explicit Loop(const data::Loader& from, Device where = {},
                const data::DeviceLoaderOptions& how = {})
      : device(where), loader(from), feed(loader, device, how) {
    net.to(device);
    optimizer.emplace(net.named_parameters(), optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    schedule.emplace(*optimizer, optim::CosineAnnealingLROptions{.T_max = kSteps});
    scaler.emplace(device, optim::GradScalerOptions{.init_scale = 8, .growth_interval = 5});
    sum = zeros({}, {.device = device});
    manual_seed(4);
  }
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("model", net);
    checkpoint.add("optimizer", *optimizer);
    checkpoint.add("schedule", *schedule);
    checkpoint.add("scaler", *scaler);
    checkpoint.add("noise", noise);
    checkpoint.add("data", loader);
    checkpoint.add("sum", sum);
    checkpoint.add("images", images);
    checkpoint.add("last", last);
    checkpoint.add("log", log);
  }
  void step(const data::Batch& batch) {
    optimizer->zero_grad();
    const Tensor x = batch.x + randn(batch.x.shape(), {.device = device}, &noise) * 0.01;
    const Tensor loss = cross_entropy(net(x), batch.y);
    scaler->scale(loss).backward();
    scaler->step(*optimizer);
    scaler->update();
    schedule->step();
    sum.add_(loss.detach());
    images += batch.y.numel();
    log += std::to_string(batch.index);
  }
  /// Goes on from `at` for `steps` at most.
  void run(Checkpoint* checkpoint, LoopPosition at, int64_t steps = kSteps) {
    for (; at.epoch < kEpochs && steps > 0; at = {at.epoch + 1, 0, at.steps}) {
      for (const data::Batch& batch : feed.epoch(at.epoch, at.batch)) {
        step(batch);
        at.batch = batch.index + 1, ++at.steps;
        const bool stop = --steps == 0 && at.batch < loader.batches();
        if (checkpoint && (checkpoint->due(at) || stop)) checkpoint->save(at);
        if (stop) return;
      }
      last = sum.item();
      if (checkpoint) checkpoint->save({at.epoch + 1, 0, at.steps}, last);
      sum.zero_();
    }
  }
  /// Everything, as bits.
  std::vector<double> result() const {
    std::vector<double> all = {last, static_cast<double>(images),
                               static_cast<double>(Generator::global().state().offset),
                               static_cast<double>(noise.state().offset)};
    for (const StateDict& state :
         {net.state_dict(), optimizer->state_dict(), schedule->state_dict(), scaler->state_dict()})
      for (const auto& [_, tensor] : state) {
        const std::vector<double> values = tensor.to(f64).to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
    for (const char c : log) all.push_back(c);
    return all;
  }

  Device device;
  data::Loader loader;
  data::DeviceLoader feed;
  int seeded = (manual_seed(3), 0);  // before the weights
  DropNet net;
  std::optional<optim::SGD> optimizer;
  std::optional<optim::CosineAnnealingLR> schedule;
  std::optional<optim::GradScaler> scaler;
  Generator noise{17};
  Tensor sum;
  int64_t images = 0;
  double last = 0;
  std::string log;
};

std::vector<double> undisturbed(Device device = {}) {
  Loop loop(make_loader(), device);
  loop.run(nullptr, {});
  return loop.result();
}

constexpr CheckpointOptions kEveryStep{.every_steps = 1, .every_seconds = 0};

class LoopCheckpoint : public ::testing::Test {
 protected:
  /// A part of the run in `run`, from where it is.
  std::vector<double> part(int64_t steps = kSteps, Device device = {},
                           const data::DeviceLoaderOptions& how = {},
                           const CheckpointOptions& options = {}) {
    Loop loop(make_loader(), device, how);
    Checkpoint checkpoint(run, options, [this](const std::string& w) { warnings.push_back(w); });
    loop.add_to(checkpoint);
    const LoopPosition at = checkpoint.resume();
    begun_at = at.steps;
    loop.run(&checkpoint, at, steps);
    failures = checkpoint.failures();
    return loop.result();
  }
  std::string resume_error(const std::function<void(Checkpoint&)>& add) {
    return tests::message_of([&] {
      Checkpoint checkpoint(run);
      add(checkpoint);
      (void)checkpoint.resume();
    });
  }
  tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  std::vector<std::string> warnings;
  int64_t begun_at = 0, failures = 0;
};

TEST_F(LoopCheckpoint, ALoopGoesOnBitForBit) {
  for (const Device device : {Device::cpu(), Device::sim(0)}) {
    fs::remove_all(run);
    const std::vector<double> whole = undisturbed(device);
    int64_t done = 0;
    for (const int64_t steps : {2, 2, 5, 1, 10}) {
      (void)part(steps, device, {.resident = steps == 5});  // however it is fed
      EXPECT_EQ(begun_at, done);
      done += steps;
    }
    EXPECT_EQ(part(kSteps, device), whole) << device.str();
    EXPECT_EQ(begun_at, 20);
    EXPECT_EQ(part(kSteps, device), whole) << "nothing is left to do";
    EXPECT_EQ(begun_at, kSteps);
  }
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

/// What the killed process does: the test runs its own program, see below.
TEST_F(LoopCheckpoint, DISABLED_Child) {
  const char* const to = std::getenv("BRIM_TEST_RUN");
  ASSERT_NE(to, nullptr);
  Loop loop(make_loader());
  Checkpoint checkpoint(to, kEveryStep);
  loop.add_to(checkpoint);
  loop.run(&checkpoint, checkpoint.resume());
}

TEST_F(LoopCheckpoint, ALoopThatIsKilledGoesOn) {
  const auto start = [&] {
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("BRIM_TEST_RUN", run.c_str(), 1);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    execl("/proc/self/exe", "loop", "--gtest_filter=LoopCheckpoint.DISABLED_Child",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  };
  int kills = 0, status = 0;
  for (int i = 0; i < 6; ++i) {
    const auto newest = [&] {
      const std::vector<std::string> all = list_checkpoints(run);
      return all.empty() ? "" : all[0];
    };
    const std::string before = newest();
    const pid_t child = start();
    bool ended = false;
    // Amid an epoch, and at any moment of a step or of a checkpoint's writing.
    while (!ended && newest() == before) ended = waitpid(child, &status, WNOHANG) == child;
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * i));
    if (ended) break;
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    kills += WIFSIGNALED(status);
  }
  EXPECT_GE(kills, 1);
  EXPECT_EQ(part(), undisturbed());
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  for (const auto& entry : fs::directory_iterator(run))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST_F(LoopCheckpoint, DamageIsFoundAndAnOlderOneIsTaken) {
  (void)part(6, {}, {}, kEveryStep);
  const std::string newest = Checkpoint::newest(run), file = newest + "/optimizer.safetensors";
  EXPECT_EQ(newest, checkpoint_path(run, 6));
  std::string bytes = tests::slurp(file);
  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 5));
  EXPECT_EQ(part(), undisturbed());
  EXPECT_EQ(begun_at, 5);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("optimizer.safetensors differs"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("older checkpoint"), std::string::npos) << warnings[1];
  EXPECT_TRUE(fs::exists(newest + ".damaged"));

  for (const std::string& path : list_checkpoints(run)) fs::remove(path + "/state.json");
  EXPECT_NE(resume_error([](Checkpoint&) {}).find("no checkpoint is sound"), std::string::npos);
}

TEST_F(LoopCheckpoint, EachFileIsCheckedForDamage) {
  (void)part(4);
  const std::string good = Checkpoint::newest(run);
  for (const char* name : {"model.safetensors", "values.safetensors", "data.safetensors",
                           "noise.safetensors", "state.json", "manifest.json"}) {
    const std::string file = good + "/" + name, bytes = tests::slurp(file);
    ASSERT_FALSE(bytes.empty()) << name;
    for (const size_t keep : {bytes.size() - 2, size_t{0}}) {
      std::ofstream(file, std::ios::binary) << bytes.substr(0, keep);
      EXPECT_THROW((void)Checkpoint::newest(run), FileError) << name;
    }
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_EQ(Checkpoint::newest(run), good);
  }
}

TEST_F(LoopCheckpoint, AFullDiskDoesNotEndTheLoop) {
  tests::FullDisk disk;
  Loop loop(make_loader());
  Checkpoint checkpoint(run, {}, [this](const std::string& w) { warnings.push_back(w); });
  loop.add_to(checkpoint);
  (void)checkpoint.resume();
  loop.run(&checkpoint, {}, 2);
  EXPECT_EQ(checkpoint.written(), 1);
  disk.set(true);
  EXPECT_FALSE(checkpoint.save({0, 3, 3}));
  EXPECT_FALSE(checkpoint.save({0, 4, 4}));
  EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 2));
  disk.set(false);
  EXPECT_TRUE(checkpoint.save({0, 5, 5}));
  EXPECT_EQ(checkpoint.failures(), 2);
  EXPECT_EQ(checkpoint.written(), 2);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("step 3 could not be written"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("written again (step 5)"), std::string::npos) << warnings[1];
  EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 5));
}

TEST_F(LoopCheckpoint, ValuesComeBackBitForBit) {
  const double nan = std::bit_cast<double>(uint64_t{0x7ff8000000001234});
  const std::string text("a\0\xff\n", 4);
  for (const auto& [number, count, words] :
       {std::tuple{nan, std::numeric_limits<int64_t>::min(), text},
        std::tuple{-0.0, int64_t{-1}, std::string()}}) {
    fs::remove_all(run);
    double d = number;
    int64_t i = count;
    std::string s = words;
    Tensor t = Tensor::from<float>({1, 2, 3}, {3}, Device::sim(0)),
           fresh = ones({2}, {.dtype = i8});
    StateDict own = {{"x", ones({4})}};
    const auto add = [&](Checkpoint& c) {
      c.add("d", d), c.add("i", i), c.add("s", s), c.add("t", t), c.add("fresh", fresh);
      c.add("own",
            {.save = [&] { return own; }, .load = [&](const StateDict& state) { own = state; }});
    };
    {
      Checkpoint checkpoint(run);
      add(checkpoint);
      EXPECT_TRUE(checkpoint.save({1, 2, 3}));
    }
    d = 1, i = 1, s = "?", own.clear();
    fresh = {};
    t.zero_();
    const Tensor same = t;
    Checkpoint checkpoint(run);
    add(checkpoint);
    const LoopPosition at = checkpoint.resume();
    EXPECT_EQ(std::tuple(at.epoch, at.batch, at.steps), std::tuple(1, 2, 3));
    EXPECT_EQ(std::bit_cast<uint64_t>(d), std::bit_cast<uint64_t>(number));
    EXPECT_EQ(i, count);
    EXPECT_EQ(s, words);
    EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{1, 2, 3})) << "written in place";
    EXPECT_EQ(fresh.dtype(), i8);
    EXPECT_EQ(own.at("x").numel(), 4);
    EXPECT_EQ(checkpoint.resumed_from(), checkpoint_path(run, 3));
  }
}

TEST_F(LoopCheckpoint, TheBestStays) {
  Checkpoint checkpoint(run, {.every_steps = 0, .every_seconds = 0, .keep = 1});
  int64_t step = 0;
  for (const double loss : {3.0, 1.0, 2.0, 4.0}) {
    ++step;
    EXPECT_TRUE(checkpoint.save({step, 0, step}, loss));
  }
  EXPECT_EQ(fs::read_symlink(run + "/best"), "checkpoint-00000002");
  EXPECT_EQ(list_checkpoints(run),
            (std::vector<std::string>{checkpoint_path(run, 4), checkpoint_path(run, 2)}));
}

TEST_F(LoopCheckpoint, ALossThatIsNoNumberIsNotTheBest) {
  Checkpoint checkpoint(run, {.every_steps = 0, .every_seconds = 0, .keep = 1});
  int64_t step = 0;
  for (const double loss : {std::nan(""), HUGE_VAL, 5.0, std::nan(""), 7.0}) {
    ++step;
    EXPECT_TRUE(checkpoint.save({step, 0, step}, loss));
  }
  EXPECT_EQ(fs::read_symlink(run + "/best"), "checkpoint-00000003");
}

TEST_F(LoopCheckpoint, IsDueByStepsOfAllLaunches) {
  const data::Loader loader = make_loader();  // 9 batches
  Checkpoint checkpoint(run, {.every_steps = 4, .every_seconds = 0});
  checkpoint.add("data", loader);
  (void)checkpoint.resume();
  EXPECT_FALSE(checkpoint.due({0, 3, 3}));
  EXPECT_TRUE(checkpoint.due({0, 4, 4}));
  EXPECT_FALSE(checkpoint.due({0, 5, 5}));
  EXPECT_TRUE(checkpoint.due({0, 8, 8}));
  EXPECT_FALSE(checkpoint.due({1, 9, 12})) << "the epoch's end has its own";
  EXPECT_TRUE(checkpoint.due({1, 4, 14})) << "12 was passed";
  EXPECT_TRUE(checkpoint.save({2, 0, 18}));
  EXPECT_FALSE(checkpoint.due({2, 1, 19})) << "16 was passed, and the epoch's end has been kept";
  EXPECT_TRUE(checkpoint.due({2, 2, 20}));
}

TEST_F(LoopCheckpoint, WhatDoesNotFitSaysWhy) {
  (void)part(4);
  Loop loop(make_loader());
  const auto says = [&](const std::function<void(Checkpoint&)>& add, const char* words) {
    const std::string error = resume_error(add);
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  says([&](Checkpoint&) {}, "holds 'model', which was not added");
  says(
      [&](Checkpoint& c) {
        loop.add_to(c);
        c.add("more", loop.net);
      },
      "does not hold 'more'");
  const auto all_but = [&](const char* name, const std::function<void(Checkpoint&)>& other) {
    return [&loop, name, other](Checkpoint& c) {
      other(c);
      const std::string skip = name;
      if (skip != "model") c.add("model", loop.net);
      c.add("optimizer", *loop.optimizer);
      c.add("schedule", *loop.schedule);
      c.add("scaler", *loop.scaler);
      c.add("noise", loop.noise);
      if (skip != "data") c.add("data", loop.loader);
      if (skip != "sum") c.add("sum", loop.sum);
      if (skip != "images") c.add("images", loop.images);
      c.add("last", loop.last);
      c.add("log", loop.log);
    };
  };
  nn::Linear other({.in = 2, .out = 2});
  Tensor pair = zeros({2});
  double number = 0;
  says(all_but("model", [&](Checkpoint& c) { c.add("model", other); }), "'model' of");
  says(all_but("model", [&](Checkpoint& c) { c.add("model", loop.noise); }),
       "'model' is a Module in");
  says(all_but("sum", [&](Checkpoint& c) { c.add("sum", pair); }), "'sum' of");
  says(all_but("images", [&](Checkpoint& c) { c.add("images", number); }), "'images' of");
  const data::Loader batches = make_loader(8), seed = make_loader(7, 6);
  says(all_but("data", [&](Checkpoint& c) { c.add("data", batches); }),
       "amid an epoch of a loader whose batch was 7, and now it is 8");
  says(all_but("data", [&](Checkpoint& c) { c.add("data", seed); }), "whose seed was 5");
  EXPECT_NE(tests::message_of<FileError>([&] {
              (void)load_checkpoint_state(Checkpoint::newest(run));
            }).find("a program's own loop"),
            std::string::npos);
  EXPECT_NE(tests::message_of<FileError>([&] {
              (void)checkpoint_recipe(run);
            }).find("a program's own loop"),
            std::string::npos);
}

TEST_F(LoopCheckpoint, ATrainersIsNotTaken) {
  tests::write_tiny_cifar(folder / "data");
  Recipe recipe = load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  Trainer(recipe, {.max_steps = 1, .out = run}).train();
  EXPECT_NE(resume_error([](Checkpoint&) {}).find("written by brim train"), std::string::npos);
}

TEST_F(LoopCheckpoint, BadUseSaysWhy) {
  nn::Linear net({.in = 2, .out = 2});
  {
    Checkpoint checkpoint(run);
    for (const char* name : {"", "a/b", "..", ".hidden", "values", "a b", "\x1b"})
      EXPECT_THROW(checkpoint.add(name, net), ValueError) << name;
    checkpoint.add("net", net);
    EXPECT_THROW(checkpoint.add("net", net), ValueError);
    checkpoint.add("data", make_loader());
    EXPECT_THROW(checkpoint.add("more data", make_loader()), ValueError) << "one place, one loader";
    EXPECT_THROW((void)checkpoint.save({-1, 0, 0}), ValueError);
    EXPECT_THROW(Checkpoint{run}, FileError) << "in use";
    EXPECT_TRUE(checkpoint.save({0, 1, 1}));
    EXPECT_TRUE(checkpoint.save({0, 1, 1})) << "is kept already";
    EXPECT_EQ(checkpoint.written(), 1);
    EXPECT_THROW((void)checkpoint.resume(), ValueError);
    EXPECT_THROW(checkpoint.add("late", net), ValueError);
  }
  Checkpoint again(run);
  EXPECT_NE(tests::message_of<FileError>([&] {
              (void)again.save({0, 2, 2});
            }).find("resume()"),
            std::string::npos);
  EXPECT_THROW(Checkpoint(folder / "other", {.keep = 0}), ValueError);
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(Checkpoint(folder / "file"), FileError);
  Tensor undefined;
  Checkpoint third(folder / "third");
  third.add("t", undefined);
  EXPECT_THROW((void)third.save({0, 1, 1}), ValueError);
  EXPECT_EQ(Checkpoint::newest(folder / "third"), "");
}

}  // namespace
}  // namespace brim::train
