// Checkpoints of loops that several ranks run: one writes, and all go on from it.
#include <brim/train/checkpoint.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include <brim/brim.h>

#include "core/check.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "train/checkpoint_shards.h"
#include "train/full_disk.h"

namespace brim::train {
namespace {

/// Steps of some ranks up to `end`, and all that rank 0 then has. The network is large enough to be
/// cut where `options` ask for it.
std::vector<double> of_ranks(const std::string& run, int64_t begins_at, int64_t end,
                             const CheckpointOptions& options, int ranks = 2) {
  std::vector<double> all;
  manual_seed(8);
  dist::run_ranks(dist::local_groups(ranks), [&](dist::ProcessGroup& group) {
    nn::Dropout drop({.p = 0.5});
    nn::Linear net({.in = 6, .out = options.sharded ? 3000 : 3});
    optim::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
    double sum = 0;
    Checkpoint checkpoint(run, group.shared_from_this(), options);
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
    checkpoint.add("sum", sum);
    LoopPosition at = checkpoint.resume();
    EXPECT_EQ(at.steps, begins_at);
    EXPECT_EQ(checkpoint.resumed_from().empty(), begins_at == 0);
    dist::DataParallel parallel(net, group.shared_from_this(), 4);
    for (; at.steps < end;) {
      const auto x = [&](int64_t part) {
        return std::sin(static_cast<double>(at.steps * 4 + group.rank() * parallel.parts() + part));
      };
      sum += parallel
                 .forward_backward([&](int64_t part) {
                   return net(drop(full({4, 6}, x(part)))).sum();
                 })
                 .item();
      optimizer.step();
      ++at.steps;
      if (checkpoint.due(at)) checkpoint.save(at);
    }
    EXPECT_TRUE(checkpoint.finish());
    EXPECT_EQ(checkpoint.written() > 0, options.sharded || group.rank() == 0);
    if (group.rank() > 0) return;
    all.push_back(sum);
    for (const StateDict& state : {net.state_dict(), optimizer.state_dict()})
      for (const auto& [_, tensor] : state) {
        const std::vector<double> values = tensor.to(f64).to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
  });
  return all;
}

TEST(RanksCheckpoint, RanksGoOnTogether) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  for (const bool background : {false, true}) {
    const std::string at = run + (background ? "-background" : ""), whole = at + "-whole";
    const CheckpointOptions options{.every_steps = 2, .background = background};
    const std::vector<double> expected = of_ranks(whole, 0, 7, options);
    (void)of_ranks(at, 0, 5, options);
    EXPECT_EQ(of_ranks(at, 4, 7, options), expected);
  }
  // Nobody waits for a rank 0 that may not write.
  Checkpoint holder(run + "-whole");
  EXPECT_NE(tests::message_of([&] {
              of_ranks(run + "-whole", 6, 7, {.every_steps = 2});
            }).find("is training in"),
            std::string::npos);
}

TEST(RanksCheckpoint, AreWrittenInShardsAndReadByAnyNumberOfRanks) {
  for (const bool background : {false, true}) {
    const tests::TemporaryFolder folder;
    const CheckpointOptions options{.every_steps = 2, .background = background, .sharded = true};
    const std::vector<double> expected = of_ranks(folder / "whole", 0, 9, options, 4);
    (void)of_ranks(folder / "run", 0, 3, options, 4);
    const std::string newest = Checkpoint::newest(folder / "run");
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(newest))
      files.insert(entry.path().filename().string());
    EXPECT_TRUE(files.contains("model-00001-of-00004.safetensors") ||
                files.contains("model-00002-of-00004.safetensors"));
    EXPECT_TRUE(files.contains("model.safetensors.index.json"));
    EXPECT_TRUE(files.contains("optimizer.safetensors.index.json"));
    EXPECT_TRUE(files.contains("values.safetensors"));  // which is small
    EXPECT_FALSE(files.contains("model.safetensors"));
    // One that knows nothing of shards reads them.
    EXPECT_EQ(io::load_safetensors(newest + "/model.safetensors").at("weight").shape(),
              Shape({3000, 6}));
    (void)of_ranks(folder / "run", 2, 5, options, 2);
    (void)of_ranks(folder / "run", 4, 7, options, 1);  // which writes whole files
    EXPECT_EQ(of_ranks(folder / "run", 6, 9, options, 4), expected);
  }
}

TEST(RanksCheckpoint, ADamagedShardIsFound) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  (void)of_ranks(run, 0, 5, {.every_steps = 2, .sharded = true});
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoint-00000004"))
    if (entry.path().filename().string().starts_with("model-0000"))
      std::filesystem::resize_file(entry.path(), 100);
  (void)of_ranks(run, 2, 5, {.every_steps = 2, .sharded = true});
  EXPECT_TRUE(std::filesystem::exists(run + "/checkpoint-00000004.damaged"));
}

TEST(RanksCheckpoint, ShardsOnAFullDiskAreToldOnceAndTriedAgain) {
  const tests::TemporaryFolder folder;
  tests::FullDisk disk;
  std::atomic<int> told{0};
  dist::run_ranks(dist::local_groups(3), [&](dist::ProcessGroup& group) {
    nn::Linear net({.in = 6, .out = 5000});
    Checkpoint checkpoint(folder / "run", group.shared_from_this(),
                          {.every_steps = 1, .background = group.rank() == 1, .sharded = true},
                          [&](const std::string&) { ++told; });
    checkpoint.add("model", net);
    LoopPosition at = checkpoint.resume();
    for (at.steps = 1; at.steps <= 4; ++at.steps) {
      group.barrier();
      if (group.rank() == 0) disk.set(at.steps == 2 || at.steps == 3);
      group.barrier();
      checkpoint.save(at);
      const bool kept = checkpoint.finish();
      EXPECT_EQ(kept, at.steps == 1 || at.steps == 4) << at.steps;
      group.barrier();
    }
    EXPECT_EQ(checkpoint.written(), 2);
    EXPECT_EQ(checkpoint.failures(), 2);
  });
  EXPECT_EQ(told, 2);  // that it failed, and that it works again; by rank 0
  int left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    left += entry.path().filename().string().starts_with("checkpoint-") ? 1 : 100;
  EXPECT_EQ(left, 2);
}

TEST(RanksCheckpoint, ARankThatFailsAmidShardsEndsAll) {
  const tests::TemporaryFolder folder;
  const auto run = [&] {
    dist::run_ranks(dist::local_groups(3), [&](dist::ProcessGroup& group) {
      nn::Linear net({.in = 6, .out = 5000});
      Checkpoint checkpoint(folder / "run", group.shared_from_this(),
                            {.every_steps = 1, .background = true, .sharded = true});
      checkpoint.add("model", net);
      LoopPosition at = checkpoint.resume();
      at.steps = 1;
      checkpoint.save(at);
      (void)checkpoint.finish();
      at.steps = 2;
      if (group.rank() == 2) raise<ValueError>("rank 2 has had enough");
      checkpoint.save(at);
      (void)checkpoint.finish();
    });
  };
  EXPECT_EQ(tests::message_of<Error>(run), "rank 2 has had enough");
  EXPECT_EQ(std::filesystem::path(Checkpoint::newest(folder / "run")).filename(),
            "checkpoint-00000001");
}

/// What rank 0 saw, from the checkpoint amid an epoch on, summed over all ranks.
double seen_by(const std::string& run, int ranks, int64_t stop) {
  double sum = 0;
  dist::run_ranks(dist::local_groups(ranks), [&](dist::ProcessGroup& group) {
    const data::Loader loader(
        data::from_tensors({{"x", arange(48, {.dtype = f32})}}),
        {.batch = 8 / ranks, .workers = 1, .rank = group.rank(), .world_size = ranks});
    data::DeviceLoader feed(loader, Device::cpu());
    double own = 0;
    Checkpoint checkpoint(run, group.shared_from_this(), {.sharded = true});
    checkpoint.add("own", own);
    checkpoint.add("data", loader);
    LoopPosition at = checkpoint.resume();
    for (const data::Batch& batch : feed.epoch(at.epoch, at.batch)) {
      Tensor x = (batch["x"] * (1.0 + static_cast<double>(batch.index))).sum();
      dist::all_reduce(group, x);
      own += x.item();
      at.batch = batch.index + 1, ++at.steps;
      if (at.steps != stop) continue;
      checkpoint.save(at);
      break;
    }
    if (group.rank() == 0) sum = own;
  });
  return sum;
}

TEST(RanksCheckpoint, OtherNumbersOfRanksGoOnAmidAnEpoch) {
  const tests::TemporaryFolder folder;
  const double whole = seen_by(folder / "whole", 1, -1);
  for (const int ranks : {1, 2, 4}) {
    const std::string run = folder / std::to_string(ranks);
    (void)seen_by(run, 2, 3);
    EXPECT_EQ(seen_by(run, ranks, -1), whole) << ranks;
  }
}

/// What ranks need not have alike is rank 0's, however large.
TEST(RanksCheckpoint, ValuesAreThoseOfRankZero) {
  const tests::TemporaryFolder folder;
  const auto run = [&](bool saves) {
    dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
      std::string log = group.rank() == 0 && saves ? std::string(200'000, 'x') : "";
      Checkpoint checkpoint(folder / "run", group.shared_from_this(), {.sharded = true});
      checkpoint.add("log", log);
      LoopPosition at = checkpoint.resume();
      EXPECT_EQ(at.steps, saves ? 0 : 1);
      EXPECT_EQ(log.size(), saves && group.rank() == 1 ? 0u : 200'000u);
      at.steps = 1;
      if (saves) {
        EXPECT_TRUE(checkpoint.save(at));
      }
    });
  };
  run(true);
  run(false);
}

TEST(RanksCheckpoint, RanksWithOtherModulesWriteNoShards) {
  const tests::TemporaryFolder folder;
  const std::string error = tests::message_of<Error>([&] {
    dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
      nn::Linear net({.in = 100, .out = 300 + group.rank()});
      Checkpoint checkpoint(folder / "run", group.shared_from_this(), {.sharded = true});
      checkpoint.add("model", net);
      LoopPosition at = checkpoint.resume();
      at.steps = 1;
      checkpoint.save(at);
    });
  });
  EXPECT_NE(error.find("ranks 0 and 1 have other modules or optimizers"), std::string::npos)
      << error;
  EXPECT_EQ(Checkpoint::newest(folder / "run"), "");
  const std::string steps = tests::message_of<Error>([&] {
    dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
      nn::Linear net({.in = 100, .out = 300});
      Checkpoint checkpoint(folder / "steps", group.shared_from_this(), {.sharded = true});
      checkpoint.add("model", net);
      LoopPosition at = checkpoint.resume();
      at.steps = 1 + group.rank();
      checkpoint.save(at);
    });
  });
  EXPECT_NE(steps.find("save at other steps"), std::string::npos) << steps;
}

/// A file that the manifest does not know goes before no shards.
TEST(RanksCheckpoint, AForeignFileBesideShardsIsDamage) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  (void)of_ranks(run, 0, 5, {.every_steps = 2, .sharded = true});
  const std::string newest = run + "/checkpoint-00000004";
  io::save_safetensors(newest + "/model.safetensors", {{"weight", ones({3})}});
  const std::string error = tests::message_of<Error>([&] { verify_checkpoint(newest); });
  EXPECT_NE(error.find("model.safetensors is in the way of its shards"), std::string::npos)
      << error;
}

/// Whose files are slow is waited for, whatever the group's timeout is.
TEST(RanksCheckpoint, AShardMayTakeLongerThanTheTimeout) {
  const tests::TemporaryFolder folder;
  dist::run_ranks(dist::local_groups(2, {.timeout = 0.2}), [&](dist::ProcessGroup& group) {
    CheckpointShards shards(group, folder / "");
    std::vector<TensorFile> files;
    files.push_back({"model", {{"w", ones({100, 1000})}}, {}, /*may_be_cut=*/true});
    shards.cut(files, 1);
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      shards.follow(files);
    } else {
      shards.write(folder / "", files, "{}");
      shards.finish("");
    }
  });
  EXPECT_NO_THROW(verify_checkpoint(folder / ""));
}

TEST(RanksCheckpoint, RanksThatSeeNoFolderAreNamed) {
  const std::vector<dist::GroupPtr> groups = dist::local_groups(2);
  const std::string error = tests::message_of<Error>([&] {
    dist::run_ranks(groups, [&](dist::ProcessGroup& group) {
      CheckpointShards shards(group, "/no/such/folder");
    });
  });
  EXPECT_NE(error.find("rank 0 sees no folder /no/such/folder"), std::string::npos) << error;
}

}  // namespace
}  // namespace brim::train
