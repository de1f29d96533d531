#include "dist/own_devices.h"

#include <gtest/gtest.h>

namespace brim::dist {
namespace {

TEST(OwnDevices, NamesTheFirstRanksThatShareOne) {
  const RankDevice a{"GPU-1", "cuda:0", "east"}, b{"GPU-2", "cuda:1", "east"};
  const RankDevice again{"GPU-1", "cuda:3", "west"}, unknown{"", "cpu", "east"};
  EXPECT_EQ(shared_device({}), "");
  EXPECT_EQ(shared_device({a, b}), "");
  EXPECT_EQ(shared_device({unknown, unknown}), "");
  EXPECT_EQ(shared_device({b, a, unknown, again, b}),
            "ranks 1 and 3 share the device GPU-1 (cuda:0 of east, and cuda:3 of west); give each "
            "rank one of its own, by --device cuda:all, CUDA_VISIBLE_DEVICES or the launcher's "
            "GPUs per task");
}

}  // namespace
}  // namespace brim::dist
