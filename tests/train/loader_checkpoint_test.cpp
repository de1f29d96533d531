// What checkpoints keep of loaders: iterable data goes on from its state, and a loader of another
// order is refused.
#include <brim/train/checkpoint.h>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>

#include <brim/brim.h>

#include "data/iterables.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::train {
namespace {

using namespace brim::tests;

constexpr int64_t kPasses = 2;
constexpr CheckpointOptions kSeldom{.every_seconds = 0};

data::Loader iterable_loader() {
  return data::Loader(noisy(data::shuffled(walk(45), 16, 3)),
                      {.batch = 7, .workers = 2, .shuffle = false});
}

/// A loop whose state is a number that depends on all batches and their order.
struct Sums {
  Sums(const data::Loader& from, Device device) : loader(from), feed(loader, device) {}
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("sum", sum);
    checkpoint.add("data", loader);
  }
  /// Saves behind step `stop` and ends there.
  void run(Checkpoint* checkpoint, LoopPosition at, int64_t stop = -1) {
    for (; at.epoch < kPasses; at = {at.epoch + 1, 0, at.steps}) {
      for (const data::Batch& batch : feed.epoch(at.epoch, at.batch)) {
        sum = 0.75 * sum + (batch.x.sum() + batch["noise"].sum()).item<float>();
        at.batch = batch.index + 1, ++at.steps;
        if (at.steps != stop) continue;
        EXPECT_TRUE(checkpoint->save(at));
        return;
      }
      if (checkpoint) checkpoint->save({at.epoch + 1, 0, at.steps});
    }
  }
  data::Loader loader;
  data::DeviceLoader feed;
  double sum = 0;
};

TEST(LoaderCheckpoint, IterableDataGoesOnFromEachStep) {
  for (const Device device : {Device::cpu(), Device::sim(0)}) {
    Sums whole(iterable_loader(), device);
    whole.run(nullptr, {});
    for (int64_t stop = 1; stop <= 14; ++stop) {
      const TemporaryFolder folder;
      for (const bool last : {false, true}) {
        Sums part(iterable_loader(), device);
        Checkpoint checkpoint(folder / "run", kSeldom);
        part.add_to(checkpoint);
        const LoopPosition at = checkpoint.resume();
        EXPECT_EQ(at.steps, last ? stop : 0);
        part.run(&checkpoint, at, last ? -1 : stop);
        if (last) {
          EXPECT_EQ(part.sum, whole.sum) << "stopped behind step " << stop;
        }
      }
    }
  }
}

TEST(LoaderCheckpoint, APipeSaysThatItCannotGoOn) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto data = data::open_lines(folder / "pipe");
  const data::Loader loader(data, {.batch = 2, .workers = 0, .shuffle = false});
  std::ofstream(folder / "pipe", std::ios::in | std::ios::out) << "ab\ncd\nef\n";
  Checkpoint checkpoint(folder / "run", kSeldom);
  checkpoint.add("data", loader);
  data::Epoch epoch = loader.epoch(0);
  ASSERT_NE(epoch.next(), nullptr);
  for (const LoopPosition at : {LoopPosition{0, 1, 1}, LoopPosition{1, 0, 1}})
    EXPECT_NE(
        message_of<ValueError>([&] { checkpoint.save(at); }).find("write the lines to a file"),
        std::string::npos);
}

TEST(LoaderCheckpoint, OfAPlaceThatIsGoneIsRefused) {
  const TemporaryFolder folder;
  const data::Loader loader = iterable_loader();
  Checkpoint checkpoint(folder / "run", kSeldom);
  checkpoint.add("data", loader);
  data::Epoch epoch = loader.epoch(0);
  while (epoch.next() != nullptr) {
  }
  EXPECT_NE(message_of<ValueError>([&] {
              checkpoint.save({0, 1, 1});
            }).find("ask right after the batch"),
            std::string::npos);
}

TEST(LoaderCheckpoint, AnotherOrderIsRefused) {
  const data::LoaderOptions plain{.batch = 4, .workers = 0};
  const auto with = [&](const auto& change) {
    data::LoaderOptions options = plain;
    change(options);
    return options;
  };
  const auto sampled = [&](double weight, uint64_t seed = 0) {
    std::vector<double> weights(61, 1);
    weights[3] = weight;
    return with([&](auto& o) { o.sampler = data::weighted_sampler(weights, 0, seed); });
  };
  const auto collated = [&](data::Collate collate) {
    return with([&](auto& o) { o.collate = std::move(collate); });
  };
  const auto in_buckets = [&](double growth) {
    return with([&](auto& o) {
      o.buckets = data::Buckets{.growth = growth};
      o.collate = data::pad();
    });
  };
  const auto own = [](std::span<const data::Sample>, data::Collated& out) {
    out.make<float>("x", {1})[0] = 0;
  };
  struct Case {
    data::LoaderOptions before, now;
    std::string told;
  };
  const Case cases[] = {
      {plain, plain, ""},
      {sampled(2), sampled(2), ""},
      {in_buckets(2), in_buckets(2), ""},
      {collated(own), collated(own), ""},
      {plain, sampled(2), "sampler was none, and now it is sampler weighted(seed 0"},
      {sampled(2), sampled(3), "sampler was sampler weighted(seed 0"},
      {sampled(2), sampled(2, 1), "and now it is sampler weighted(seed 1"},
      {collated(data::pad()), in_buckets(2), "buckets was none, and now it is growth 2, tokens 0"},
      {in_buckets(2), in_buckets(1.5), "buckets was growth 2, tokens 0"},
      {plain, collated(data::pad()), "collate was stack, and now it is pad(value 0"},
      {collated(data::pad()), collated(data::pad({.value = 1})), "collate was pad(value 0"},
      {collated(data::pad()), collated(data::pack()), "now it is pack('offsets')"},
      {collated(data::pack()), collated(own), "now it is a function of one's own"},
  };
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    const auto load = [&](const data::LoaderOptions& options, const LoopPosition* save) {
      const data::Loader loader(sentences(61, bool(options.collate)), options);
      Checkpoint checkpoint(folder / "run", kSeldom);
      checkpoint.add("data", loader);
      if (save)
        checkpoint.save(*save);
      else
        checkpoint.resume();
    };
    const LoopPosition amid{0, 2, 2};
    load(c.before, &amid);
    const std::string message = message_of([&] { load(c.now, nullptr); });
    if (c.told.empty())
      EXPECT_EQ(message, "no error");
    else
      EXPECT_NE(message.find(c.told), std::string::npos) << message;
  }
  // Nor can iterable data go on where a table was.
  const TemporaryFolder folder;
  const auto load = [&](const data::Loader& loader, const LoopPosition* save) {
    Checkpoint checkpoint(folder / "run", kSeldom);
    checkpoint.add("data", loader);
    if (save)
      checkpoint.save(*save);
    else
      checkpoint.resume();
  };
  const LoopPosition amid{0, 2, 2};
  load(data::Loader(table(), {.batch = 7, .shuffle = false}), &amid);
  EXPECT_NE(message_of([&] { load(iterable_loader(), nullptr); }).find("loader's state"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::train
