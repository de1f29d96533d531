// Quotas of cgroups, in trees like /proc and /sys.
#include "core/cpu_quota.h"

#include <brim/core/threads.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    const fs::path full = folder_ / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }
  double quota() const { return cpu_quota((folder_ / "proc").c_str(), (folder_ / "sys").c_str()); }
  TemporaryFolder folder_;
};

TEST_F(CpuQuota, IsTheLeastUpToTheRoot) {
  EXPECT_EQ(quota(), 0);  // no such files
  put("proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/a/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3.5);
  put("sys/fs/cgroup/cpu.max", "50000 200000\n");
  EXPECT_EQ(quota(), 0.25);
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, OfVersion1) {
  put("proc/self/cgroup", "5:cpuset:/a\n3:cpu,cpuacct:/a\n1:name=systemd:/a\n");
  put("sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1\n");  // none of this one
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, StaysInTheTree) {
  put("outside/cpu.max", "1000 100000\n");
  put("proc/self/cgroup", "0::/../../../outside\n");
  EXPECT_EQ(quota(), 0);
  put("proc/self/cgroup", "0::/" + std::string(5000, 'x') + "\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1);  // the root's
}

TEST_F(CpuQuota, IgnoresWhatIsNoQuota) {
  for (const char* text : {"", "nonsense", "1", "-5 100000", "100000 0", "0 0", ":", "\n"}) {
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(quota(), 0) << text;
    put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("proc/self/cgroup", text);
    EXPECT_EQ(quota(), 0) << text;
  }
}

TEST(ThreadsWithin, AreWholeAndAtLeastOne) {
  EXPECT_EQ(threads_within(0, 8), 8);
  EXPECT_EQ(threads_within(0, 0), 1);
  EXPECT_EQ(threads_within(0.25, 8), 1);
  EXPECT_EQ(threads_within(3.9, 8), 3);
  EXPECT_EQ(threads_within(1e30, 8), 8);
  EXPECT_LE(available_cpus(), threads_within(cpu_quota(), 1 << 20));
}

}  // namespace
}  // namespace brim::tests
