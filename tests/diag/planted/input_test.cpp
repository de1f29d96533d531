// See planted.h. The loader, and who has to wait for it.
#include "diag/planted/planted.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>

#include <brim/data/dataset.h>
#include <brim/data/device_loader.h>
#include <brim/data/iterable.h>
#include <brim/nn/linear.h>
#include <brim/train/trainer.h>

#include "temporary_folder.h"

namespace brim::diag::planted {
namespace {

data::Loader loader_of(double seconds, int workers = 1) {
  return data::Loader(std::make_shared<SlowPictures>(seconds), {},
                      {.batch = 4, .workers = workers, .ahead = 1});
}

/// Goes through an epoch with `use`, and returns how long its batches were waited for.
template <class F>
double timed_epoch(data::DeviceLoader& feed, const F& use) {
  auto epoch = feed.epoch(0);
  double waited = 0;
  for (const data::Batch* batch = nullptr;;) {
    waited += timed([&] { batch = epoch.next(); });
    if (!batch) return waited;
    use(*batch);
  }
}

TEST_P(Planted, InputAndUserCodeBehindIt) {
  data::DeviceLoader feed(loader_of(0.01 * scale()), device());
  double waited = 0, planted = 0;
  const Account a = account_of([&] {
    waited = timed_epoch(feed, [&](const data::Batch& batch) {
      const Tensor y = batch.x * 2.0;
      synchronize(device());
      planted += timed([] { sleep(0.02 * scale()); });
    });
  });
  expect_row(a, Cause::user, planted);
  expect_row(a, Cause::input, waited);
}

TEST_P(Planted, TheCallersOwnThreadAsTheLoader) {
  data::DeviceLoader feed(loader_of(0.005 * scale(), 0), device());
  double waited = 0, planted = 0;
  const Account a = account_of([&] {
    waited = timed_epoch(feed, [&](const data::Batch& batch) {
      (void)(batch.x * 2.0);
      planted += timed([] { sleep(0.01 * scale()); });
    });
  });
  EXPECT_GE(waited, 0.06 * scale());
  expect_row(a, Cause::input, waited);
  expect_row(a, Cause::user, planted);
}

// A worker that has its batches ready waits for a slot nearly all the time; that is no wait of the
// step (as traceml#463 took it to be).
TEST_P(Planted, AWorkerThatWaitsForASlotIsNoInput) {
  const data::Loader loader = loader_of(0.001);
  data::DeviceLoader feed(loader, device());
  double waited = 0, planted = 0;
  const Account a = account_of([&] {
    waited = timed_epoch(
        feed, [&](const data::Batch&) { planted += timed([] { sleep(0.08 * scale()); }); });
  });
  ASSERT_EQ(feed.loader().worker_accounts().size(), 1U);
  const data::WorkerAccount worker = feed.loader().worker_accounts()[0];
  EXPECT_GT(worker.slot + worker.idle, 0.4 * planted) << "the worker waits, and not the step";
  EXPECT_LE(at(a, Cause::input), waited + 0.1 * a.wall) << a.table();
  EXPECT_LT(at(a, Cause::input), 0.5 * (worker.slot + worker.idle)) << a.table();
  expect_row(a, Cause::user, planted);
}

// The same loader with a step that is faster: now the wait is planted, and it is the step's.
TEST_P(Planted, AWorkerThatIsLateIsInput) {
  data::DeviceLoader feed(loader_of(0.02 * scale()), device());
  double waited = 0;
  const Account a = account_of([&] { waited = timed_epoch(feed, [&](const data::Batch&) {}); });
  EXPECT_GE(waited, 0.1 * scale()) << "12 pictures of 20 ms by one worker";
  EXPECT_GE(at(a, Cause::input) + at(a, Cause::stolen), 0.5 * waited) << a.table();
  EXPECT_LE(at(a, Cause::input), 1.1 * waited + 0.05 * a.wall) << a.table();
}

TEST_P(Planted, AnEpochThatIsLeftEarly) {
  Tensor x = numbers();
  double waited = 0, left = 0;
  const Account a = account_of([&] {
    data::DeviceLoader feed(loader_of(0.02 * scale()), device());
    std::optional<data::DeviceEpoch> epoch;
    waited = timed([&] {
      epoch.emplace(feed.epoch(0));
      (void)epoch->next();
    });
    sleep(0.01 * scale());                 // until the worker is amid its next batch
    left = timed([&] { epoch.reset(); });  // which it ends
    step(x);
  });
  EXPECT_GE(left, 0.04 * scale());
  expect_row(a, Cause::input, waited + left);
}

TEST_P(Planted, TwoDevicesThatWaitForOneLoader) {
  if (on_cpu()) GTEST_SKIP() << "of devices with a queue";
  const Device other{device().kind, 1};
  data::DeviceLoader feed(loader_of(0.01 * scale()), {device(), other});
  synchronize(device());
  synchronize(other);
  const Accountant accountant({device(), other});
  double waited = 0, planted = 0;
  waited = timed_epoch(feed, [&](const data::Batch& batch) {
    for (const data::Batch& part : batch.parts) (void)(part.x * 2.0);
    planted += timed([] { sleep(0.01 * scale()); });
  });
  synchronize(device());
  synchronize(other);
  for (const Device d : {device(), other}) {
    const Account a = accountant.read(d);
    expect_row(a, Cause::input, waited);
    expect_row(a, Cause::user, planted);
  }
}

TEST_P(Planted, Evaluation) {
  struct Net : nn::Module {
    nn::Linear& layer = add<nn::Linear>("layer", {.in = 12, .out = 2});
    Tensor forward(const Tensor& x) override { return layer(x.flatten(1)); }
  } net;
  net.to(device());
  data::DeviceLoader feed(loader_of(0.005 * scale()), device());
  Tensor x = numbers();
  double planted = 0, after = 0;
  const Account a = account_of([&] {
    planted = timed([&] { (void)train::evaluate(net, feed, {}); });
    after = timed([] { sleep(0.03 * scale()); });
    step(x);
  });
  expect_row(a, Cause::evaluation, planted);
  expect_row(a, Cause::user, after);
}

TEST_P(Planted, TheWorkersOwnAccount) {
  if (!on_cpu()) GTEST_SKIP() << "of the loader";
  const auto pictures = std::make_shared<SlowPictures>(0.01 * scale());
  const data::Loader loader(pictures, {}, {.batch = 4, .workers = 1, .ahead = 1});
  double slow = 0;
  const double wall = timed([&] {
    for (const data::Batch& batch : loader.epoch(0)) {
      EXPECT_TRUE(batch.x.defined());
      slow += timed([] { sleep(0.08 * scale()); });
    }
  });
  const data::WorkerAccount worker = sum(loader.worker_accounts());
  EXPECT_NEAR(worker.wall, wall, tolerance(wall));
  const double read = 1e-9 * static_cast<double>(pictures->read_ns.load());
  EXPECT_NEAR(worker.read + worker.stolen, read, tolerance(read) + 1e-3);
  // Three batches, three slots: it waits for none of them, and is done before the loop.
  EXPECT_LT(worker.slot, tolerance(wall));
  EXPECT_GE(worker.idle, slow - worker.read - tolerance(slow));
}

TEST_P(Planted, WhatMapsTakeIsAugmenting) {
  if (!on_cpu()) GTEST_SKIP() << "of the loader";
  std::atomic<int64_t> mapped_ns{0};
  const auto slowly = [&](const data::Sample&, data::Sample& out) {
    mapped_ns += static_cast<int64_t>(1e9 * timed([] { sleep(0.01 * scale()); }));
    out.set("x", 1.0F);
  };
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "lines.txt") << "a\nb\nc\nd\ne\nf\ng\nh\n";
  const data::Loader random(
      data::map(data::map(data::from_tensors({{"x", ones({8})}}), slowly), slowly),
      {.batch = 4, .workers = 1});
  const data::Loader iterable(data::map(data::open_lines(folder / "lines.txt"), slowly),
                              {.batch = 4, .workers = 1, .shuffle = false});
  for (const data::Loader* loader : {&random, &iterable}) {
    mapped_ns = 0;
    for (const data::Batch& batch : loader->epoch(0)) EXPECT_FALSE(batch.samples.empty());
    const data::WorkerAccount worker = sum(loader->worker_accounts());
    const double mapped = 1e-9 * static_cast<double>(mapped_ns.load());
    EXPECT_NEAR(worker.augment + worker.stolen, mapped, tolerance(mapped) + 1e-3);
    EXPECT_LT(worker.read, tolerance(mapped));
  }
}

}  // namespace
}  // namespace brim::diag::planted
