// Checkpoints that a thread writes while the loop goes on.
#include <brim/train/checkpoint.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/ops/create.h>

#include "temporary_folder.h"
#include "train/full_disk.h"
#include "train/run_folder.h"

namespace brim::train {
namespace {

TEST(BackgroundCheckpoint, TellsWhatWentWrong) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  std::vector<std::string> warnings;
  tests::FullDisk disk;
  Tensor value = ones({1000});
  {
    Checkpoint checkpoint(run, {.background = true},
                          [&](const std::string& w) { warnings.push_back(w); });
    checkpoint.add("value", value);
    EXPECT_TRUE(checkpoint.save({0, 2, 2}));
    EXPECT_TRUE(checkpoint.finish());
    EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 2));
    disk.set(true);
    EXPECT_TRUE(checkpoint.save({0, 3, 3}));  // it is being written
    EXPECT_FALSE(checkpoint.finish());
    EXPECT_EQ(checkpoint.failures(), 1);
    ASSERT_EQ(warnings.size(), 1U);
    disk.set(false);
    EXPECT_TRUE(checkpoint.save({0, 4, 4}));
    EXPECT_TRUE(checkpoint.finish());
    EXPECT_EQ(warnings.size(), 2U);
    disk.set(true);
    EXPECT_TRUE(checkpoint.save({0, 5, 5}));
  }  // nobody asks any more
  disk.set(false);
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_NE(warnings[2].find("step 5 could not be written"), std::string::npos) << warnings[2];
  EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 4));
}

/// A copy is for runs that have room for it beside what they need at most.
TEST(BackgroundCheckpoint, WithoutRoomForACopyTheLoopWaits) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  Tensor value = zeros({1 << 20});
  Allocator& memory = Allocator::of(Device::cpu());
  memory.reset_peak();
  memory.release_cached();
  for (const bool roomy : {true, false}) {
    std::filesystem::remove_all(run);
    Checkpoint checkpoint(run, {.background = true});
    checkpoint.add("value", value);
    memory.set_limit(memory.stats().peak_live + (roomy ? 64 : 2) * (int64_t{1} << 20));
    const int64_t before = memory.stats().live;
    EXPECT_TRUE(checkpoint.save({0, 1, 1}));
    if (!roomy) {
      EXPECT_EQ(memory.stats().live, before);
      EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 1));
    }
    EXPECT_TRUE(checkpoint.finish());
    memory.set_limit(0);
    EXPECT_EQ(Checkpoint::newest(run), checkpoint_path(run, 1));
  }
}

}  // namespace
}  // namespace brim::train
