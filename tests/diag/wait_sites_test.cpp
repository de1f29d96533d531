// Which calls of a program wait for a device.
#include "diag/wait_sites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include <brim/core/sim.h>
#include <brim/core/stream.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

namespace brim::diag {
namespace {

[[gnu::noinline]] double read_it(const Tensor& x) { return x.item(); }

class WaitSites : public ::testing::Test {
 protected:
  WaitSites() {
    SimOptions slow = before;
    slow.profile = "h100";
    slow.slowdown = 20;  // each read takes more than 0.1 ms
    set_sim_options(slow);
    note_waits(true);
  }
  ~WaitSites() override {
    note_waits(false);
    set_sim_options(before);
  }
  static int64_t count(Cause cause) {
    int64_t all = 0;
    for (const WaitSite& site : wait_sites(1000))
      if (site.cause == cause) all += site.count;
    return all;
  }
  const SimOptions before = sim_options();
};

TEST_F(WaitSites, AreCallsOfTheProgram) {
  EXPECT_TRUE(notes_waits());
  const Device device = Device::sim(0);
  const int64_t reads = count(Cause::host_read), waits = count(Cause::synchronize);
  {
    const Accountant accountant({device});
    Tensor x = zeros({}, {.device = device});
    for (int i = 0; i < 50; ++i) {
      x.add_(1);
      (void)read_it(x);
    }
    for (int i = 0; i < 30; ++i) {
      x.add_(1);
      synchronize(device);
    }
    EXPECT_EQ(read_it(x), 80);
  }
  EXPECT_EQ(count(Cause::host_read) - reads, 51);
  EXPECT_EQ(count(Cause::synchronize) - waits, 30);
  const std::vector<WaitSite> sites = wait_sites(1000);
  const auto most = std::ranges::max_element(sites, {}, [](const WaitSite& site) {
    return site.cause == Cause::host_read ? site.count : 0;
  });
  ASSERT_NE(most, sites.end());
  EXPECT_STREQ(most->op, "host_read");
  EXPECT_GT(most->seconds, 0);
  ASSERT_GE(most->stack.size(), 2u);
  const CodeAddress code = code_address(most->stack[0]);
  EXPECT_TRUE(code.file.find("test") != std::string::npos)
      << code.file;  // and no library of brim's
  EXPECT_GT(code.address, 0u);
  EXPECT_LE(wait_sites(1).size(), 1u);
  for (size_t i = 1; i < sites.size(); ++i) EXPECT_GE(sites[i - 1].seconds, sites[i].seconds);
}

TEST_F(WaitSites, AreThoseOfThreadsThatMeasure) {
  const int64_t before = count(Cause::host_read);
  const Device device = Device::sim(0);
  std::thread([&] {
    Tensor x = zeros({}, {.device = device});
    for (int i = 0; i < 20; ++i) (void)read_it(x.add_(1));
  }).join();
  EXPECT_EQ(count(Cause::host_read), before);
}

TEST(CodeAddress, OfNothing) {
  const CodeAddress code = code_address(nullptr);
  EXPECT_EQ(code.file, "");
  EXPECT_EQ(code.function, "");
}

}  // namespace
}  // namespace brim::diag
