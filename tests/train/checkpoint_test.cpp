// Checkpoints: complete or absent, the last one kept, damage found.
#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <brim/ops/create.h>

#include "train/tiny_data.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;
using testing::slurp;

Checkpoint sample(int64_t epochs) {
  Checkpoint c{
      .epochs = epochs, .steps = 10 * epochs, .random = {.seed = 7, .offset = ~uint64_t{0}}};
  c.recipe.name = "mine";
  c.recipe.optimizer.lr = 0.1234567890123;
  c.classes = {"ant",
               "b\xe9"
               "e"};
  c.model = {{"w", full({2, 2}, static_cast<double>(epochs))}};
  c.optimizer = {{"state.w.momentum", ones({2, 2})}, {"lr", full({}, 0.1, {.dtype = f64})}};
  c.schedule = {{"step", full({}, 3, {.dtype = i64})}};
  return c;
}

std::string error_of(const std::string& path) {
  try {
    (void)load_checkpoint(path);
  } catch (const FileError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Checkpoint, RoundTripAndOnlyTheLastIsKept) {
  const testing::TemporaryFolder folder;
  const std::string run = folder / "run";
  EXPECT_EQ(last_checkpoint(run), "");
  for (const int64_t epoch : {1, 2, 10}) save_checkpoint(run, sample(epoch));
  EXPECT_EQ(last_checkpoint(run), run + "/checkpoint-0010");
  EXPECT_EQ(std::distance(fs::directory_iterator(run), {}), 1);
  const Checkpoint c = load_checkpoint(last_checkpoint(run));
  EXPECT_EQ(c.epochs, 10);
  EXPECT_EQ(c.steps, 100);
  EXPECT_EQ(c.random.seed, 7U);
  EXPECT_EQ(c.random.offset, ~uint64_t{0});
  EXPECT_EQ(c.recipe.name, "mine");
  EXPECT_EQ(c.recipe.optimizer.lr, 0.1234567890123);
  EXPECT_EQ(c.classes, (std::vector<std::string>{"ant", "b\ufffde"}));
  EXPECT_EQ(c.model.at("w").to_vector<float>(), std::vector<float>(4, 10));
  EXPECT_EQ(c.optimizer.size(), 2U);
  EXPECT_EQ(c.schedule.at("step").item<int64_t>(), 3);
}

TEST(Checkpoint, SameEpochIsReplaced) {
  const testing::TemporaryFolder folder;
  save_checkpoint(folder.path(), sample(3));
  Checkpoint c = sample(3);
  c.steps = 99;
  save_checkpoint(folder.path(), c);
  EXPECT_EQ(load_checkpoint(last_checkpoint(folder.path())).steps, 99);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, FailureLeavesTheOldOneAlone) {
  const testing::TemporaryFolder folder;
  save_checkpoint(folder.path(), sample(1));
  Checkpoint bad = sample(2);
  bad.schedule["undefined"] = Tensor();
  EXPECT_THROW(save_checkpoint(folder.path(), bad), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(error_of(last_checkpoint(folder.path())), "no error");
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  const testing::TemporaryFolder folder;
  const auto fresh = [&] {
    save_checkpoint(folder.path(), sample(1));
    return last_checkpoint(folder.path());
  };
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "schedule.safetensors",
                           "state.json", "manifest.json"}) {
    const std::string file = fresh() + "/" + name;
    fs::remove(file);
    EXPECT_NE(error_of(last_checkpoint(folder.path())).find(name), std::string::npos) << name;
    fresh();
    fs::resize_file(file, fs::file_size(file) - 2);
    EXPECT_NE(error_of(last_checkpoint(folder.path())).find(name), std::string::npos) << name;
    std::string bytes = slurp((fresh() + "/" + name));
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_NE(error_of(last_checkpoint(folder.path())), "no error") << name;
  }
}

TEST(Checkpoint, FoldersThatCannotBeUsed) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(make_folder(folder / "file"), FileError);
  EXPECT_THROW(save_checkpoint(folder / "file/below", sample(1)), FileError);
  EXPECT_THROW((void)load_checkpoint(folder / "absent"), FileError);
}

}  // namespace
}  // namespace brim::train
