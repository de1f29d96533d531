// Every way to feed a loop gives the batches that the loader makes on the host, to the bit: floats
// and bytes that are copied, and a data set that lives on the device.
#include <brim/data/device_loader.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/core/sim.h>

#include "backend/launches.h"
#include "data/device_batches.h"
#include "data/pictures.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace tests;
using brim::tests::RandomPictures;

/// Transforms whose last part, of every kind, a device does.
std::vector<Transform> transforms() {
  const Normalize scale{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  return {
      {},
      {{}, scale},
      {{HorizontalFlip{}}, scale},
      {{RandomCrop{.height = 9, .width = 12, .padding = 3, .fill = 7}}, scale},
      {{RandomCrop{.height = 9, .width = 11, .padding = 4}, HorizontalFlip{}}, scale},
      {{HorizontalFlip{}, RandomCrop{.height = 5, .width = 7, .padding = 2}}, scale},
      {{Resize{.height = 13}, CenterCrop{.height = 8}, RandomCrop{.height = 8, .padding = 1},
        HorizontalFlip{}},
       scale},
      // Two crops: the first one stays with the host.
      {{RandomCrop{.height = 8, .padding = 2, .fill = 9}, HorizontalFlip{},
        RandomCrop{.height = 8, .padding = 2}, HorizontalFlip{}},
       scale},
      {{RandomResizedCrop{.height = 8}, HorizontalFlip{}}, scale},
  };
}

class DeviceLoaderTest : public OnSimProfiles {
 protected:
  const std::shared_ptr<Source> pictures_ = std::make_shared<RandomPictures>(23, 9, 11);
};

TEST_P(DeviceLoaderTest, CopiedBatchesAreTheLoaders) {
  for (const Transform& transform : transforms()) {
    const Loader loader(pictures_, transform, {.batch = 4, .workers = 1, .seed = 5});
    for (const Device device : brim::tests::feeding_devices()) {
      for (const AugmentOn augment_on : {AugmentOn::host, AugmentOn::device}) {
        for (const int workers : {0, 2}) {
          const Loader given(pictures_, transform, {.batch = 4, .workers = workers, .seed = 5});
          DeviceLoader feed(given, device, {.augment_on = augment_on});
          EXPECT_EQ(feed.loader().options().raw, augment_on == AugmentOn::device);
          for (int64_t epoch = 0; epoch < 2; ++epoch)
            EXPECT_EQ(all_of(feed.epoch(epoch)), expected(loader, epoch))
                << device.str() << ", " << transform.steps.size() << " steps, epoch " << epoch;
          EXPECT_EQ(all_of(feed.epoch(1, 3)), expected(loader, 1, 3)) << device.str();
        }
      }
    }
  }
}

TEST_P(DeviceLoaderTest, DataOnTheDeviceIsTheLoadersData) {
  for (const Transform& transform : transforms()) {
    const Loader loader(pictures_, transform, {.batch = 4, .workers = 1, .seed = 5});
    for (const Device device : brim::tests::feeding_devices()) {
      if (!loader.has_windows()) {
        EXPECT_THROW(DeviceLoader(loader, device, {.resident = true}), ValueError);
        continue;
      }
      DeviceLoader feed(loader, device, {.resident = true});
      EXPECT_EQ(feed.resident_bytes(), 23 * (feed.loader().raw_shape().bytes() + 8 + 16));
      for (const int64_t epoch : {0, 1, 1, 0})
        EXPECT_EQ(all_of(feed.epoch(epoch)), expected(loader, epoch))
            << device.str() << ", " << transform.steps.size() << " steps, epoch " << epoch;
      EXPECT_EQ(all_of(feed.epoch(2, 3)), expected(loader, 2, 3)) << device.str();
      EXPECT_THROW((void)feed.epoch(0, 7), ValueError);
    }
  }
}

TEST_P(DeviceLoaderTest, PassesOverItAreItsEpochs) {
  const Loader loader(pictures_, {}, {.batch = 4, .workers = 1, .seed = 5});
  for (const Device device : brim::tests::feeding_devices()) {
    for (const bool resident : {false, true}) {
      EXPECT_EQ(all_of(DeviceLoader(loader, device, {.resident = resident})), expected(loader, 0));
      DeviceLoader feed(loader, device, {.resident = resident});
      for (int64_t epoch = 0; epoch < 3; ++epoch)
        EXPECT_EQ(all_of(feed), expected(loader, epoch)) << device.str() << epoch;
      EXPECT_EQ(all_of(feed.epoch(7, 2)), expected(loader, 7, 2));
      EXPECT_EQ(all_of(feed), expected(loader, 8)) << "the one after";
    }
  }
}

TEST_P(DeviceLoaderTest, ABreakLeavesNothingBehind) {
  const Loader loader(pictures_, {}, {.batch = 4, .workers = 2, .seed = 5});
  for (const Device device : brim::tests::feeding_devices()) {
    for (const bool resident : {false, true}) {
      DeviceLoader feed(loader, device, {.resident = resident});
      for (int64_t after = 0; after < 6; ++after) {
        for (const Batch& batch : feed.epoch(1)) {
          EXPECT_EQ(batch.y.to_vector<int64_t>().size(), batch.samples.size());
          if (batch.index == after) break;
        }
        EXPECT_EQ(all_of(feed.epoch(1, after)), expected(loader, 1, after)) << device.str();
      }
    }
  }
}

TEST_P(DeviceLoaderTest, AnEpochEndsWithTheNextOneAndOutlivesItsLoader) {
  const Loader loader(pictures_, {}, {.batch = 4, .workers = 1, .seed = 5});
  for (const Device device : brim::tests::feeding_devices()) {
    for (const bool resident : {false, true}) {
      auto feed =
          std::make_unique<DeviceLoader>(loader, device, DeviceLoaderOptions{.resident = resident});
      DeviceEpoch first = feed->epoch(0);
      ASSERT_NE(first.next(), nullptr);
      DeviceEpoch second = feed->epoch(1);
      const std::string text = brim::tests::message_of<ValueError>([&] { (void)first.next(); });
      EXPECT_NE(text.find("ended when the next one"), std::string::npos) << text;
      first = std::move(second);  // the old one's end does not touch it
      feed.reset();
      EXPECT_EQ(all_of(first), expected(loader, 1)) << device.str();
      EXPECT_EQ(first.next(), nullptr);
    }
  }
}

TEST_P(DeviceLoaderTest, TheGivenLoaderMayEndFirst) {
  std::vector<Seen> all;
  std::optional<Loader> loader(std::in_place, pictures_, Transform{},
                               LoaderOptions{.batch = 4, .workers = 1, .seed = 5});
  DeviceLoader feed(*loader, Device::sim(0));
  all = expected(*loader, 0);
  loader.reset();
  EXPECT_EQ(all_of(feed), all);
}

TEST_P(DeviceLoaderTest, TensorsBelongToWhoeverHoldsThem) {
  const Loader loader(pictures_, {}, {.batch = 4, .workers = 1, .seed = 5});
  for (const Device device : brim::tests::feeding_devices()) {
    for (const bool resident : {false, true}) {
      DeviceLoader feed(loader, device, {.resident = resident});
      std::vector<Batch> kept;
      for (const Batch& batch : feed)
        kept.push_back(
            {.x = batch.x, .y = batch.y, .index = batch.index, .samples = batch.samples});
      for (int i = 0; i < 2; ++i) (void)all_of(feed);
      std::vector<Seen> result;
      for (const Batch& batch : kept) result.push_back(seen(batch));
      EXPECT_EQ(result, expected(loader, 0)) << device.str() << resident;
    }
  }
}

TEST_P(DeviceLoaderTest, SeveralAtOnceOnSeveralDevices) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  const Loader loader(pictures_, {}, {.batch = 4, .workers = 1, .seed = 5});
  DeviceLoader a(loader, Device::sim(0)), b(loader, Device::sim(1), {.resident = true}),
      c(loader, Device::cpu());
  DeviceEpoch at_a = a.epoch(3), at_b = b.epoch(3), at_c = c.epoch(3);
  while (const Batch* batch = at_a.next()) {
    EXPECT_EQ(seen(*at_b.next()), seen(*batch));
    EXPECT_EQ(seen(*at_c.next()), seen(*batch));
  }
  EXPECT_EQ(at_b.next(), nullptr);
  EXPECT_EQ(at_c.next(), nullptr);
  a = DeviceLoader(loader, Device::sim(1));  // the loop moves on to another device
  EXPECT_EQ(all_of(a.epoch(4)), expected(loader, 4));
  EXPECT_EQ(a.devices(), std::vector<Device>{Device::sim(1)});
}

TEST_P(DeviceLoaderTest, EachOfSeveralDevicesGetsItsPart) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  const std::vector<Device> devices = {Device::sim(0), Device::sim(1), Device::cpu()};
  for (const int64_t size : {1, 2, 7, 8}) {  // 23 samples: last batches of 1, 1, 2, 7
    const Loader loader(pictures_, {{HorizontalFlip{}}, {}},
                        {.batch = size, .workers = 1, .seed = 5});
    DeviceLoader feed(loader, devices);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<Seen> joined;
      for (const Batch& batch : feed) {
        EXPECT_FALSE(batch.x.defined());
        Seen all{.index = batch.index, .samples = batch.samples};
        std::vector<int64_t> samples;
        EXPECT_EQ(batch.parts.size(), std::min<size_t>(3, batch.samples.size()));
        for (size_t k = 0; k < batch.parts.size(); ++k) {
          const Batch& part = batch.parts[k];
          EXPECT_EQ(part.x.device(), devices[k]);
          EXPECT_EQ(part.y.device(), devices[k]);
          const Seen s = seen(part);
          EXPECT_EQ(s.y.size(), (batch.samples.size() + 2 - k) / 3);
          all.x.insert(all.x.end(), s.x.begin(), s.x.end());
          all.y.insert(all.y.end(), s.y.begin(), s.y.end());
          samples.insert(samples.end(), s.samples.begin(), s.samples.end());
        }
        EXPECT_EQ(samples, batch.samples);
        all.shape = {static_cast<int64_t>(all.y.size()), 3, 9, 11};
        joined.push_back(std::move(all));
      }
      const std::vector<Seen> whole = expected(loader, epoch);
      ASSERT_EQ(joined.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(joined[i].index, whole[i].index);
        EXPECT_EQ(joined[i].shape, whole[i].shape);
        EXPECT_EQ(joined[i].x, whole[i].x);
        EXPECT_EQ(joined[i].y, whole[i].y);
        EXPECT_EQ(joined[i].samples, whole[i].samples);
      }
    }
  }
}

TEST_P(DeviceLoaderTest, StepsFindTheirBatchesThemselves) {
  for (const Device device : brim::tests::feeding_devices()) {
    const Loader loader(pictures_, {{HorizontalFlip{}}, {}}, {.batch = 4, .workers = 1, .seed = 5});
    DeviceLoader feed(loader, device, {.resident = true});
    const std::vector<Seen> all = expected(loader, 3);
    DeviceEpoch epoch = feed.epoch(3, 1);
    EXPECT_FALSE(epoch.take(5));  // 23 = 5 x 4 + 3
    ASSERT_TRUE(epoch.take(4));
    for (size_t i = 1; i <= 4; ++i) {
      const Batch batch = feed.next_in_step();
      EXPECT_EQ(batch.x.to_vector<float>(), all[i].x) << device.str();
      EXPECT_EQ(batch.y.to_vector<int64_t>(), all[i].y) << device.str();
    }
    EXPECT_FALSE(epoch.take(1));
    EXPECT_THROW((void)epoch.take(0), ValueError);
    EXPECT_EQ(seen(*epoch.next()), all.back());
    EXPECT_EQ(epoch.next(), nullptr);
    const auto beyond = [&] {
      (void)feed.next_in_step();
      synchronize(device);
    };
    EXPECT_THROW(beyond(), IndexError) << device.str();
  }
}

TEST_P(DeviceLoaderTest, FeedsACompiledStepInOneLine) {
  for (const Device device : brim::tests::feeding_devices()) {
    const Loader loader(pictures_, {}, {.batch = 4, .workers = 1, .seed = 5});
    auto step = compile([&](const Tensor& x, const Tensor& y) { return mean(x) + sum(y.to(f32)); });
    Tensor total = zeros({}, {.device = device});  // as docs/PLANS.md has it
    for (const Batch& batch : DeviceLoader(loader, device)) total.add_(step(batch.x, batch.y));
    Tensor expected = zeros({}, {.device = device});
    for (const Batch& batch : loader.epoch(0))
      expected.add_(mean(batch.x.to(device)) + sum(batch.y.to(device).to(f32)));
    EXPECT_EQ(total.item(), expected.item()) << device.str();
    EXPECT_EQ(step.stats().plans, 2) << "one for the last batch, which is smaller";
  }
}

TEST_P(DeviceLoaderTest, SeveralCompiledStepsAreOneLaunch) {
  // The loop of docs/DATA.md; what it sums does not depend on how many steps are a launch.
  for (const Device device : brim::tests::feeding_devices()) {
    const Loader loader(pictures_, {{HorizontalFlip{}}, {}}, {.batch = 4, .workers = 1, .seed = 5});
    DeviceLoader feed(loader, device, {.resident = true});
    std::vector<std::vector<float>> results;
    for (const int together : {1, 2, 5}) {
      Tensor all = zeros({3, 9, 11}, {.device = device});
      const auto update = [&](const Batch& batch) {
        all.mul_(0.5).add_(sum(batch.x, {0})).add_(sum(batch.y.to(f32)));
      };
      auto step = compile([&] { update(feed.next_in_step()); });
      for (int64_t e = 0; e < 3; ++e) {
        DeviceEpoch epoch = feed.epoch(e);
        while (epoch.take(together)) step.repeat(together, {});
        for (const Batch& batch : epoch) update(batch);
      }
      EXPECT_EQ(step.stats().plans, 1) << device.str();
      EXPECT_EQ(step.stats().replays, 3 * (5 / together * together));
      results.push_back(all.to_vector<float>());
    }
    EXPECT_EQ(results[1], results[0]) << device.str();
    EXPECT_EQ(results[2], results[0]) << device.str();
  }
}

TEST_P(DeviceLoaderTest, ABatchOfDataOnTheDeviceIsOneLaunch) {
  using Names = std::vector<std::string>;
  for (const Device device : brim::tests::feeding_devices()) {
    const Loader loader(pictures_, {{HorizontalFlip{}}, {}}, {.batch = 4, .seed = 5});
    DeviceLoader feed(loader, device, {.resident = true});
    DeviceEpoch epoch = feed.epoch(0);
    ASSERT_TRUE(epoch.take(1));
    const auto kernels_of = [&](const std::function<void()>& f) {
      synchronize(device);
      Names names = launches(f);
      // A device that is quick has computed it by now, and is in the trace as well.
      if (!device.is_cpu()) names.erase(std::unique(names.begin(), names.end()), names.end());
      return names;
    };
    EXPECT_EQ(kernels_of([&] { (void)feed.next_in_step(); }), Names{"picture_batch"});
    EXPECT_EQ(kernels_of([&] { (void)epoch.next(); }), Names{"picture_batch"}) << device.str();
  }
}

INSTANTIATE_TEST_SUITE_P(AtOnceAndPaced, DeviceLoaderTest, ::testing::Values("", "h200"));

TEST(DeviceLoaderOptionsTest, WhatCannotBeSaysWhy) {
  const Loader loader(std::make_shared<RandomPictures>(4, 9, 11), {}, {});
  const auto says = [&](const std::vector<Device>& devices, const DeviceLoaderOptions& options,
                        const char* words) {
    const std::string text =
        brim::tests::message_of([&] { const DeviceLoader feed(loader, devices, options); });
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  const std::vector<Device> two = {Device::sim(0), Device::sim(1)};
  says({}, {}, "no device");
  says({Device::sim(99)}, {}, "sim:99");
  says(two, {.augment_on = AugmentOn::device}, "on one device, not on sim:0,sim:1");
  says(two, {.resident = true}, "on one device, not on sim:0,sim:1");
  says({Device::cpu()}, {.augment_on = AugmentOn::host, .resident = true}, "leave AugmentOn::host");
  says({Device::cpu()}, {.resident = true, .progress = [](double) { return false; }}, "stopped");
  DeviceLoader feed(loader, Device::cpu());
  EXPECT_FALSE(feed.epoch(0).take(1));
  EXPECT_NE(
      brim::tests::message_of<ValueError>([&] { (void)feed.next_in_step(); }).find("resident"),
      std::string::npos);
}

TEST(LoaderPasses, AreItsEpochs) {
  const auto pictures = std::make_shared<RandomPictures>(10, 9, 11);
  const Loader loader(pictures, {}, {.batch = 4, .workers = 1, .seed = 5});
  const Loader copy = loader;
  EXPECT_EQ(loader.next_epoch(), 0);
  EXPECT_EQ(all_of(loader), expected(Loader(pictures, {}, {.batch = 4, .seed = 5}), 0));
  for (const Batch& batch : copy)
    if (batch.index == 1) break;
  EXPECT_EQ(loader.next_epoch(), 2);
  const std::vector<Seen> third = all_of(loader);
  EXPECT_EQ(third, expected(loader, 2));
  EXPECT_NE(third, expected(loader, 3));
  const std::vector<Seen> fifth = all_of(loader);  // the one after that begun last
  EXPECT_EQ(fifth, expected(loader, 4));
}

}  // namespace
}  // namespace brim::data
