// The memory that feeding a device takes: asked for before it is used, and given back.
#include <brim/data/device_loader.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <brim/brim.h>
#include <brim/core/sim.h>

#include "core/pinned_memory.h"
#include "data/device_batches.h"
#include "data/pictures.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace tests;
using brim::tests::RandomPictures;

TEST(DeviceLoaderMemory, IsAskedForBeforeAnythingIsUploaded) {
  const auto pictures = std::make_shared<RandomPictures>(100, 32, 32);
  for (const Device device : brim::tests::feeding_devices()) {
    const Loader loader(pictures, {}, {.batch = 4});
    Allocator& allocator = Allocator::of(device);
    allocator.release_cached();
    allocator.set_limit(allocator.stats().live + 200000);
    const std::string text = brim::tests::message_of<OutOfMemory>(
        [&] { const DeviceLoader feed(loader, device, {.resident = true}); });
    EXPECT_NE(text.find("100 pictures of 3 x 32 x 32 take 309600 bytes on " + device.str()),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("DeviceLoaderOptions::resident"), std::string::npos) << text;
    allocator.set_limit(0);
  }
}

TEST(DeviceLoaderMemory, IsAskedForOnceAndGivenBack) {
  set_sim_options({.profile = "h200", .check = true});
  const PinnedMemory& memory = PinnedMemory::of(DeviceKind::sim);
  const auto live = [] { return Allocator::of(Device::sim(0)).stats().live; };
  const int64_t before = memory.system_allocations(), held = memory.bytes(), used = live();
  for (const AugmentOn augment_on : {AugmentOn::host, AugmentOn::device}) {
    const auto pictures = std::make_shared<RandomPictures>(40, 8, 8);
    const Loader loader(pictures, {}, {.batch = 4, .workers = 2, .ahead = 3});
    DeviceLoader feed(loader, Device::sim(0), {.augment_on = augment_on});
    (void)all_of(feed);
    const int64_t pinned = memory.system_allocations();
    const int64_t on_device = Allocator::of(Device::sim(0)).stats().system_allocations;
    for (int i = 0; i < 5; ++i)
      for (const Batch& batch : feed) (void)(batch.x * 2.0);
    EXPECT_GT(memory.bytes(), held);
    // Slots, of x and y; some may still be read when an epoch ends.
    EXPECT_LE(memory.system_allocations() - pinned, 2 * (5 + 5));
    EXPECT_LE(Allocator::of(Device::sim(0)).stats().system_allocations - on_device, 4);
  }
  EXPECT_GT(memory.system_allocations(), before);
  EXPECT_EQ(memory.bytes(), held);
  synchronize(Device::sim(0));
  EXPECT_EQ(live(), used);
  set_sim_options({});
}

}  // namespace
}  // namespace brim::data
