// Kernels and plans in result.json, and the roof that shares are of.
#include <brim/core/allocator.h>
#include <gtest/gtest.h>

#include <cmath>

#include "command/op_report.h"
#include "core/cache_file.h"

namespace brim::command {
namespace {

TEST(OpReport, SharesAreOfTheRoof) {
  const DeviceRoof roof{
      .operations_per_s = 1e9, .bytes_per_s = 1e8, .cache_bytes_per_s = 1e9, .cache_bytes = 1e6};
  // By arithmetic: 1 ms of 4 ms.
  EXPECT_DOUBLE_EQ(
      share_of_roof({.operations = 1e6, .bytes = 10, .calls = 2, .seconds = 8e-3}, roof), 0.25);
  // By memory: 2e6 bytes are 20 ms; in the cache 1e5 bytes are 0.1 ms.
  EXPECT_DOUBLE_EQ(
      share_of_roof({.operations = 1, .bytes = 2e6, .calls = 1, .seconds = 0.04}, roof), 0.5);
  EXPECT_DOUBLE_EQ(
      share_of_roof({.operations = 1, .bytes = 1e5, .calls = 1, .seconds = 1e-3}, roof), 0.1);
  EXPECT_TRUE(std::isnan(share_of_roof({.bytes = 10, .calls = 1, .seconds = 1}, {})));
  EXPECT_TRUE(std::isnan(share_of_roof({.calls = 1, .seconds = 1}, roof)));
  EXPECT_TRUE(std::isnan(share_of_roof({.operations = 1, .bytes = 1}, roof)));
}

TEST(OpReport, RowsSayWhatIsKnown) {
  const std::vector<diag::OpTime> ops = {
      {.name = "matmul",
       .shapes = "(2, 2)",
       .operations = 8,
       .bytes = 48,
       .calls = 3,
       .seconds = 2},
      {.name = "a kernel of cuda", .calls = 1, .seconds = 1},
      {.name = "relu", .operations = 1, .bytes = 8, .calls = 1, .seconds = 0.5}};
  EXPECT_EQ(ops_json(ops, 2).dump(),
            R"j([{"op":"matmul","dtype":"f32","shapes":"(2, 2)","calls":3,"seconds":2.0,)j"
            R"j("operations":8.0,"bytes":48.0},)j"
            R"j({"op":"a kernel of cuda","dtype":null,"shapes":"","calls":1,"seconds":1.0,)j"
            R"j("operations":null,"bytes":null}])j");
  const auto with_roof = ops_json(ops, 9, {.operations_per_s = 1e3, .bytes_per_s = 1e3});
  EXPECT_EQ(with_roof.size(), 3U);
  EXPECT_DOUBLE_EQ(with_roof[0]["share_of_roof"].get<double>(), 0.072);
  EXPECT_TRUE(with_roof[1]["share_of_roof"].is_null());
}

TEST(OpReport, TheLineAddsUpByName) {
  EXPECT_EQ(dearest_line({}), "");
  EXPECT_EQ(dearest_line({{.name = "b", .bytes = 1, .calls = 1, .seconds = 3},
                          {.name = "a", .bytes = 2, .calls = 1, .seconds = 2},
                          {.name = "a", .bytes = 1, .calls = 1, .seconds = 2},
                          {.name = "c", .calls = 1, .seconds = 1},
                          {.name = "d", .calls = 1, .seconds = 1},
                          {.name = "e", .calls = 1, .seconds = 1}}),
            "dearest kernels: a 40 %, b 30 %, e 10 %, d 10 %");
}

TEST(OpReport, APlanIsLists) {
  EXPECT_TRUE(timeline_json({}).is_null());
  EXPECT_EQ(timeline_json({.launches = {{"relu", 4, 32}},
                           .temporaries = {{"(4)", "f32", 64, 16, 0, 1, true}},
                           .arena_bytes = 128})
                .dump(),
            R"j({"arena_bytes":128,"launches":[["relu",4.0,32.0]],)j"
            R"j("temporaries":[["(4)","f32",64,16,0,1,true]]})j");
  PlanTimeline huge;
  huge.launches.resize(5001);
  EXPECT_TRUE(timeline_json(huge).is_null());
}

TEST(DeviceRoof, IsMeasured) {
  const DeviceRoof roof = measure_roof(Device::cpu(), "fp32");
  EXPECT_GT(roof.operations_per_s, 1e8);  // any CPU, under a sanitizer too
  EXPECT_GT(roof.bytes_per_s, 1e7);
  EXPECT_GE(roof.cache_bytes_per_s, roof.bytes_per_s);
  EXPECT_GT(roof.cache_bytes, 0);
  EXPECT_EQ(roof.bandwidth_of(1), roof.cache_bytes_per_s);
  EXPECT_EQ(roof.bandwidth_of(1e12), roof.bytes_per_s);
  EXPECT_TRUE(roof_json({}).is_null());
}

TEST(DeviceRoof, IsKept) {
  if (cache_path("device_roof.json").empty()) GTEST_SKIP() << "no home for a cache";
  const DeviceRoof first = device_roof(Device::cpu(), "fp32");
  const DeviceRoof again = device_roof(Device::cpu(), "fp32");
  ASSERT_TRUE(first.is_known());
  EXPECT_NEAR(again.operations_per_s / first.operations_per_s, 1, 1e-5);  // no two measurements
  EXPECT_NEAR(again.bytes_per_s / first.bytes_per_s, 1, 1e-5);
  EXPECT_NEAR(again.cache_bytes / first.cache_bytes, 1, 1e-5);
}

TEST(DeviceRoof, IsNotKnownWithoutMemory) {
  Allocator& allocator = Allocator::of(Device::cpu());
  const int64_t before = allocator.stats().limit;
  allocator.set_limit(1 << 20);
  const DeviceRoof roof = measure_roof(Device::cpu(), "fp32");
  allocator.set_limit(before);
  EXPECT_FALSE(roof.is_known());
}

}  // namespace
}  // namespace brim::command
