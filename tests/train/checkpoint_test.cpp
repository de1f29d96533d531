// Checkpoints: complete or absent, the newest and the best kept, damage found and passed over.
#include "train/run_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brim/ops/create.h>

#include <algorithm>
#include <cmath>

#include "io/temporary.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "train/checkpointer.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;
using tests::slurp;

RunState sample(int64_t steps) {
  RunState c{.random = {.seed = 7, .offset = ~uint64_t{0}}};
  c.at = {.epoch = 2,
          .batch = 3,
          .epoch_steps = 2,
          .steps = steps,
          .images = 4 * steps,
          .skipped = 5,
          .unreported = {.sum = 0.1F, .steps = 2},
          .epoch_reported = {.sum = 1.0 / 3, .steps = 6}};
  c.recipe.name = "mine";
  c.recipe.optimizer.lr = 0.1234567890123;
  c.samples = 60;
  c.devices = "cpu";
  c.mode = {.compile = false, .passes = "-layout"};
  c.classes = {"ant",
               "b\xe9"
               "e"};
  c.model = {{"w", full({2, 2}, static_cast<double>(steps))}};
  c.optimizer = {{"state.w.momentum", ones({2, 2})}, {"lr", full({}, 0.1, {.dtype = f64})}};
  c.schedule = {{"step", full({}, 3, {.dtype = i64})}};
  return c;
}

std::string save_checkpoint(const std::string& folder, const RunState& state, int64_t keep) {
  return save_checkpoint(folder, state.at.steps, state.best, keep, writer_of(state));
}

std::string devices_in(const std::string& folder) {
  const auto state = newest_state(folder);
  return state ? state->devices : "";
}

std::string load_error(const std::string& path) {
  return tests::message_of<FileError>([&] { (void)load_checkpoint(path); });
}

/// Names in the folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Checkpoint, RoundTrip) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  EXPECT_EQ(find_checkpoint(run).path, "");
  save_checkpoint(run, sample(42), 1);
  EXPECT_EQ(find_checkpoint(run).path, run + "/checkpoint-00000042");
  const RunState c = load_checkpoint(run + "/checkpoint-00000042");
  EXPECT_EQ(c.at.epoch, 2);
  EXPECT_EQ(c.at.batch, 3);
  EXPECT_EQ(c.at.epoch_steps, 2);
  EXPECT_EQ(c.at.steps, 42);
  EXPECT_EQ(c.at.images, 168);
  EXPECT_EQ(c.at.skipped, 5);
  EXPECT_EQ(c.at.unreported.sum, double{0.1F});
  EXPECT_EQ(c.at.unreported.steps, 2);
  EXPECT_EQ(c.at.epoch_reported.sum, 1.0 / 3);
  EXPECT_EQ(c.at.epoch_reported.steps, 6);
  EXPECT_TRUE(std::isnan(c.at.last_loss));
  EXPECT_EQ(c.random.seed, 7U);
  EXPECT_EQ(c.random.offset, ~uint64_t{0});
  EXPECT_EQ(c.recipe.name, "mine");
  EXPECT_EQ(c.recipe.optimizer.lr, 0.1234567890123);
  EXPECT_EQ(c.samples, 60);
  EXPECT_EQ(c.devices, "cpu");
  ASSERT_TRUE(c.mode);
  EXPECT_FALSE(c.mode->compile);
  EXPECT_EQ(c.mode->passes, "-layout");
  EXPECT_EQ(c.classes, (Names{"ant", "b\ufffde"}));
  EXPECT_EQ(c.model.at("w").to_vector<float>(), std::vector<float>(4, 42));
  EXPECT_EQ(c.optimizer.size(), 2U);
  EXPECT_EQ(c.schedule.at("step").item<int64_t>(), 3);
}

TEST(Checkpoint, NewestAndBestStay) {
  const tests::TemporaryFolder folder;
  for (const int64_t steps : {1, 2, 3, 10, 100}) {
    RunState c = sample(steps);
    if (steps >= 2) c.best = {.steps = 2, .score = 0.5};
    save_checkpoint(folder.path(), c, 2);
  }
  EXPECT_EQ(names_in(folder.path()),
            (Names{"best", "checkpoint-00000002", "checkpoint-00000010", "checkpoint-00000100"}));
  EXPECT_EQ(fs::read_symlink(folder / "best"), "checkpoint-00000002");
  EXPECT_EQ(load_checkpoint(folder / "best").at.steps, 2);
  RunState c = sample(101);
  c.best = {.steps = 101, .score = 0.25};
  save_checkpoint(folder.path(), c, 1);
  EXPECT_EQ(names_in(folder.path()), (Names{"best", "checkpoint-00000101"}));
  EXPECT_EQ(fs::read_symlink(folder / "best"), "checkpoint-00000101");
}

TEST(Checkpoint, SomeoneElsesBestIsLeftAlone) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "best") << "mine";
  RunState c = sample(1);
  c.best = {.steps = 1, .score = 0.5};
  save_checkpoint(folder.path(), c, 1);
  EXPECT_EQ(slurp(folder / "best"), "mine");
}

TEST(Checkpoint, BestThatCannotBeLinkedIsToldOnce) {
  const tests::TemporaryFolder folder;
  fs::create_directories(folder / "best/notes");
  std::vector<std::string> warnings;
  Checkpointer checkpointer(folder.path(), {}, 0, {},
                            [&](const std::string& line) { warnings.push_back(line); });
  for (const int64_t steps : {1, 2, 3})
    checkpointer.save(
        steps, [&] { return snapshot_of(sample(steps), false); }, 1.0 / static_cast<double>(steps));
  EXPECT_EQ(checkpointer.written(), 3);
  EXPECT_TRUE(fs::is_directory(folder / "best/notes"));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0], (folder / "best") +
                             " is no link and stays, so it does not name the best checkpoint, "
                             "checkpoint-00000001; move it away");
  fs::remove_all(folder / "best");
  checkpointer.save(
      4, [] { return snapshot_of(sample(4), true); }, 0.1);
  EXPECT_TRUE(checkpointer.finish());
  EXPECT_EQ(fs::read_symlink(folder / "best"), "checkpoint-00000004");
  EXPECT_EQ(warnings.size(), 1U);
}

TEST(Checkpoint, FailureLeavesTheOldOnesAlone) {
  const tests::TemporaryFolder folder;
  save_checkpoint(folder.path(), sample(1), 1);
  RunState bad = sample(2);
  bad.schedule["undefined"] = Tensor();
  EXPECT_THROW(save_checkpoint(folder.path(), bad, 1), Error);
  EXPECT_EQ(names_in(folder.path()), Names{"checkpoint-00000001"});
  EXPECT_THROW(save_checkpoint(folder.path(), sample(1), 1), FileError) << "it is there already";
  EXPECT_EQ(names_in(folder.path()), Names{"checkpoint-00000001"});
  EXPECT_EQ(load_error(folder / "checkpoint-00000001"), "no error");
}

TEST(Checkpoint, OnlyWhatAKilledRunLeftIsRemoved) {
  const tests::TemporaryFolder folder;
  save_checkpoint(folder.path(), sample(1), 1);
  const std::string ours = ".checkpoint-00000002.brim-12-3.tmp";
  const std::string file = ".model.safetensors.brim-12-3.tmp", link = ".best.brim-12-3.tmp";
  const Names others = {".best.12.tmp",
                        ".best.brim-12-4.tmp",
                        ".bests.brim-12-3.tmp",
                        ".checkpoint-.brim-12-3.tmp",
                        ".checkpoint-00000002.12.tmp",
                        ".checkpoint-00000003",
                        ".checkpoint-2.brim-x-3.tmp",
                        ".model.safetensors.brim-12-4.tmp",
                        "checkpoint-00000002.brim-12-3.tmp",
                        "model.safetensors",
                        "model.safetensors.12-3.tmp"};
  for (const std::string& name : others) {
    fs::create_directories(folder / name);
    std::ofstream(folder / (name + "/file")) << "x";
  }
  fs::create_directories(folder / (ours + "/below"));
  std::ofstream(folder / file) << "x";
  fs::create_symlink("checkpoint-00000001", folder / link);
  remove_leftovers(folder.path());
  Names expected = others;
  expected.emplace_back("checkpoint-00000001");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(Checkpoint, FolderHasOneUser) {
  const tests::TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_TRUE(lock.held());
    EXPECT_THROW(FolderLock(folder.path()), FileError);
  }
  EXPECT_NO_THROW(FolderLock(folder.path()));
}

TEST(Checkpoint, DamagedOnesArePassedOver) {
  const tests::TemporaryFolder folder;
  for (const int64_t steps : {1, 2, 3, 4}) save_checkpoint(folder.path(), sample(steps), 9);
  const auto name = [&](int64_t steps) { return checkpoint_path(folder.path(), steps); };
  fs::remove(name(4) + "/manifest.json");
  fs::resize_file(name(3) + "/optimizer.safetensors", 100);
  const FoundCheckpoint found = find_checkpoint(folder.path());
  EXPECT_EQ(found.path, name(2));
  ASSERT_EQ(found.damaged.size(), 2U);
  EXPECT_EQ(found.damaged[0].path, name(4));
  EXPECT_NE(found.damaged[0].reason.find("manifest.json: No such file"), std::string::npos);
  EXPECT_EQ(found.damaged[1].path, name(3));

  set_aside(name(4));
  save_checkpoint(folder.path(), sample(4), 9);
  fs::remove(name(4) + "/state.json");
  set_aside(name(4));
  EXPECT_TRUE(fs::exists(name(4) + ".damaged/manifest.json")) << "the later one";
  EXPECT_EQ(list_checkpoints(folder.path()), (Names{name(3), name(2), name(1)}));

  for (const int64_t steps : {1, 2}) fs::remove_all(name(steps) + "/model.safetensors");
  try {
    (void)find_checkpoint(folder.path());
    FAIL();
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("no checkpoint is sound"), std::string::npos) << e.what();
  }
}

TEST(Checkpoint, DevicesAreThoseOfTheNewestStateThatCanBeRead) {
  const tests::TemporaryFolder folder;
  EXPECT_EQ(devices_in(folder.path()), "");
  EXPECT_EQ(devices_in(folder / "absent"), "");
  const auto state = [&](int64_t steps) {
    return checkpoint_path(folder.path(), steps) + "/state.json";
  };
  for (const int64_t steps : {1, 2, 3}) {
    RunState c = sample(steps);
    c.devices = "sim:0,sim:" + std::to_string(steps);
    save_checkpoint(folder.path(), c, 9);
  }
  EXPECT_EQ(devices_in(folder.path()), "sim:0,sim:3");
  fs::resize_file(state(3), 20);
  EXPECT_EQ(devices_in(folder.path()), "sim:0,sim:2");
  fs::remove(state(2));
  EXPECT_EQ(devices_in(folder.path()), "sim:0,sim:1");
  fs::resize_file(state(1), 0);
  EXPECT_EQ(devices_in(folder.path()), "");
}

TEST(Checkpoint, HowStepsWereCompiledMayBeUnknown) {
  const tests::TemporaryFolder folder;
  RunState before_it_was_kept = sample(1);
  before_it_was_kept.mode = {};
  save_checkpoint(folder.path(), before_it_was_kept, 1);
  EXPECT_FALSE(load_checkpoint(folder / "checkpoint-00000001").mode);
}

TEST(Checkpoint, OtherFormatIsNamed) {
  const tests::TemporaryFolder folder;
  save_checkpoint(folder.path(), sample(1), 1);
  const std::string path = folder / "checkpoint-00000001";
  std::ofstream(path + "/state.json") << R"({"epochs": 1, "steps": 10})";
  try {
    (void)load_checkpoint_state(path);
    FAIL();
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("is of format 1"), std::string::npos) << e.what();
  }
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "checkpoint-00000001";
  const auto fresh = [&] {
    fs::remove_all(path);
    save_checkpoint(folder.path(), sample(1), 1);
    return path;
  };
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "schedule.safetensors",
                           "state.json", "manifest.json"}) {
    const std::string file = fresh() + "/" + name;
    fs::remove(file);
    EXPECT_NE(load_error(path).find(name), std::string::npos) << name;
    fresh();
    fs::resize_file(file, fs::file_size(file) - 2);
    EXPECT_NE(load_error(path).find(name), std::string::npos) << name;
    std::string bytes = slurp((fresh() + "/" + name));
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_NE(load_error(path), "no error") << name;
  }
}

TEST(Checkpoint, FoldersThatCannotBeUsed) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(make_folder(folder / "file"), FileError);
  EXPECT_THROW(save_checkpoint(folder / "file/below", sample(1), 1), FileError);
  EXPECT_THROW((void)load_checkpoint(folder / "absent"), FileError);
}

TEST(Checkpoint, ManyClassesAreReadBack) {
  const tests::TemporaryFolder folder;
  RunState c = sample(3);
  for (int i = 0; i < 20'000; ++i) c.classes.push_back(std::string(100, 'c') + std::to_string(i));
  save_checkpoint(folder / "run", c, 2);  // state.json has 2 MB
  EXPECT_EQ(load_checkpoint(folder / "run/checkpoint-00000003").classes.size(), c.classes.size());
}

TEST(Checkpoint, BestNeverLeadsToAnotherOne) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  RunState c = sample(1);
  c.best = {.steps = 1, .score = 2};
  save_checkpoint(run, c, 1);
  EXPECT_EQ(fs::read_symlink(run + "/best"), "checkpoint-00000001");
  // Folders have the names under which the new link may be made, and something lies in them.
  const std::string used = io::temporary_name(run + "/best");
  const size_t dash = used.rfind('-') + 1;
  for (int next = std::stoi(used.substr(dash)), i = 1; i < 50; ++i)
    fs::create_directories(used.substr(0, dash) + std::to_string(next + i) + ".tmp/x");
  c = sample(2);
  c.best = {.steps = 2, .score = 1};
  save_checkpoint(run, c, 1);
  EXPECT_FALSE(fs::is_symlink(run + "/best"));
  EXPECT_EQ(list_checkpoints(run).size(), 1U);
}

TEST(Checkpoint, PipesAndDevicesAreNotWaitedFor) {
  const tests::TemporaryFolder folder;
  save_checkpoint(folder / "run", sample(1), 2);
  const std::string file = folder / "run/checkpoint-00000001/optimizer.safetensors";
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(load_error(folder / "run/checkpoint-00000001").find("not a regular file"),
            std::string::npos);
  fs::remove(file);
  fs::create_symlink("/dev/zero", file);
  EXPECT_NE(load_error(folder / "run/checkpoint-00000001").find("not a regular file"),
            std::string::npos);
}

TEST(Checkpoint, AFolderThatCannotBeReadIsNotEmpty) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const tests::TemporaryFolder folder;
  save_checkpoint(folder / "run", sample(1), 2);
  fs::permissions(folder / "run", fs::perms::owner_write | fs::perms::owner_exec);
  EXPECT_THROW(list_checkpoints(folder / "run"), FileError);
  EXPECT_THROW(FolderLock{folder / "run"}, FileError);
  fs::permissions(folder / "run", fs::perms::owner_all);
}

}  // namespace
}  // namespace brim::train
