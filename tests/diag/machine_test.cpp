// The machine's readings, of trees that are made for a test, in order and damaged, and of this
// machine.
#include "diag/machine/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "core/clock.h"
#include "diag/machine/parts.h"
#include "temporary_folder.h"

namespace brim::diag {
namespace {

namespace fs = std::filesystem;

/// Trees like /proc and /sys.
class MachineTree {
 public:
  MachineRoots roots() const { return {.proc = folder_ / "proc", .sys = folder_ / "sys"}; }
  void put(const std::string& path, const std::string& text) const {
    const fs::path full = folder_ / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }
  void put_process(int64_t pid, const std::string& name, int ticks, int started) const {
    put("proc/" + std::to_string(pid) + "/stat",
        std::to_string(pid) + " (" + name + ") S 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) +
            " 10 0 0 20 0 3 0 " + std::to_string(started) + " 1000000 25 18446744073709551615\n");
  }

 private:
  tests::TemporaryFolder folder_;
};

const ProcessReading* process_of(const MachineReading& r, int64_t pid) {
  for (const ProcessReading& p : r.processes)
    if (p.pid == pid) return &p;
  return nullptr;
}

TEST(Machine, CoresAreSharesOfTheTimeBetween) {
  const MachineTree tree;
  tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n");
  tree.put("proc/stat", "cpu 0 0 0 0\ncpu0 100 0 100 100 0 0 0 0\ncpu3 5 0 0 5 0 0 0 0\n");
  MachineReader reader(tree.roots());
  MachineReading r = reader.read(10);
  EXPECT_EQ(r.seconds, 0);
  ASSERT_EQ(r.cores.size(), 2u);
  EXPECT_EQ(r.cores[0].busy(), 0);
  tree.put("proc/stat", "cpu0 130 10 110 120 20 5 5 0\ncpu2 9 9 9 9\ncpu3 5 0 0 5 0 0 0 40\n");
  r = reader.read(12);
  EXPECT_EQ(r.seconds, 2);
  ASSERT_EQ(r.cores.size(), 3u);
  EXPECT_DOUBLE_EQ(r.cores[0].user, 0.4);
  EXPECT_DOUBLE_EQ(r.cores[0].system, 0.2);
  EXPECT_DOUBLE_EQ(r.cores[0].wait, 0.2);
  EXPECT_EQ(r.cores[0].mhz, 2400);
  EXPECT_EQ(r.cores[1].index, 2);  // came online: no time before is known
  EXPECT_EQ(r.cores[1].busy(), 0);
  EXPECT_EQ(r.cores[2].index, 3);
  EXPECT_DOUBLE_EQ(r.cores[2].steal, 1);
}

TEST(Machine, ClocksOfCpuinfoWhereThereIsNoCpufreq) {
  const MachineTree tree;
  tree.put("proc/stat", "cpu0 1 1 1 1\ncpu1 1 1 1 1\n");
  tree.put("proc/cpuinfo",
           "processor\t: 0\ncpu MHz\t\t: 2300.5\n\nprocessor\t: 1\ncpu MHz\t: nonsense\n");
  const MachineReading r = MachineReader(tree.roots()).read(0);
  EXPECT_EQ(r.cores.at(0).mhz, 2300.5);
  EXPECT_FALSE(r.cores.at(1).mhz);
}

TEST(Machine, MemoryPressureDisksAndNetworks) {
  const MachineTree tree;
  tree.put("proc/meminfo",
           "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 "
           "kB\n");
  tree.put("proc/pressure/cpu", "some avg10=1.00 avg60=0 avg300=0 total=1000000\nfull x\n");
  tree.put("sys/block/sda/size", "1");
  const auto disk = [&](int read, int written, int busy) {
    const std::string n = " 1 0 " + std::to_string(read) + " 5 1 0 " + std::to_string(written) +
                          " 5 0 " + std::to_string(busy) + " 9\n";
    tree.put("proc/diskstats", "   8 0 sda" + n + "   8 1 sda1" + n + " 7 0 loop0" + n);
  };
  const auto network = [&](int in, int out) {
    const std::string n = std::to_string(in) + " 1 0 0 0 0 0 0 " + std::to_string(out) + " 1 0 0\n";
    tree.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo:" + n + "  eth0: " + n);
  };
  disk(0, 0, 0);
  network(0, 0);
  MachineReader reader(tree.roots());
  MachineReading r = reader.read(0);
  EXPECT_EQ(r.memory.total, 1000 * 1024);
  EXPECT_EQ(r.memory.available, 400 * 1024);
  EXPECT_EQ(r.memory.swap_used, 30 * 1024);
  EXPECT_FALSE(r.pressure.cpu);  // of no time yet
  tree.put("proc/pressure/cpu", "some avg10=1.00 avg60=0 avg300=0 total=1500000\n");
  disk(200, 400, 500);
  network(1000, 500);
  r = reader.read(2);
  EXPECT_DOUBLE_EQ(r.pressure.cpu.value(), 0.25);
  EXPECT_FALSE(r.pressure.memory);
  ASSERT_EQ(r.disks.size(), 1u);  // neither parts nor loops
  EXPECT_EQ(r.disks[0].name, "sda");
  EXPECT_DOUBLE_EQ(r.disks[0].read, 100 * 512);
  EXPECT_DOUBLE_EQ(r.disks[0].written, 200 * 512);
  EXPECT_DOUBLE_EQ(r.disks[0].busy, 0.25);
  ASSERT_EQ(r.networks.size(), 1u);
  EXPECT_EQ(r.networks[0].name, "eth0");
  EXPECT_DOUBLE_EQ(r.networks[0].in, 500);
  EXPECT_DOUBLE_EQ(r.networks[0].out, 250);
  network(10, 10);  // the counter starts anew
  EXPECT_EQ(reader.read(3).networks.at(0).in, 0);
}

TEST(Machine, LimitsOfBothVersionsOfCgroups) {
  const MachineTree tree;
  tree.put("proc/self/cgroup", "0::/a/b\n");
  tree.put("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  tree.put("sys/fs/cgroup/a/cpu.max", "400000 100000\n");
  tree.put("sys/fs/cgroup/a/b/memory.max", "max\n");
  tree.put("sys/fs/cgroup/a/memory.max", "1000000\n");
  tree.put("sys/fs/cgroup/a/memory.current", "250000\n");
  tree.put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nthrottled_usec 1000000\n");
  LimitReader reader;
  LimitReading limits = reader.read(tree.roots(), 0);
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 1.5);
  EXPECT_EQ(limits.memory, 1000000);  // the folder above has it
  EXPECT_EQ(limits.memory_used, 250000);
  EXPECT_FALSE(limits.throttled);  // of no time yet
  tree.put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nthrottled_usec 1500000\nnr_bursts\n");
  EXPECT_DOUBLE_EQ(reader.read(tree.roots(), 2).throttled.value(), 0.25);
  tree.put("sys/fs/cgroup/a/b/cpu.stat", "throttled_usec -\n");
  EXPECT_EQ(reader.read(tree.roots(), 2).throttled, 0);  // it starts anew

  const MachineTree old;
  old.put("proc/self/cgroup", "2:cpu,cpuacct:/x\n4:memory:/outside/of/the/container\nnonsense\n");
  old.put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  old.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  old.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  old.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  old.put("sys/fs/cgroup/cpu/x/cpu.stat", "nr_throttled 3\nthrottled_time 1000000000\n");
  LimitReader old_reader;
  limits = old_reader.read(old.roots(), 0);
  EXPECT_DOUBLE_EQ(limits.cpus.value(), 0.5);
  EXPECT_FALSE(limits.memory);
  old.put("sys/fs/cgroup/cpu/x/cpu.stat", "throttled_time 2000000000\n");
  EXPECT_DOUBLE_EQ(old_reader.read(old.roots(), 4).throttled.value(), 0.25);
}

TEST(Machine, UsableMemoryIsWithinTheLimit) {
  const MachineTree tree;
  EXPECT_EQ(usable_memory(tree.roots()), std::numeric_limits<int64_t>::max());
  tree.put("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 2000 kB\n");
  EXPECT_EQ(usable_memory(tree.roots()), 2'048'000);
  tree.put("proc/self/cgroup", "0::/a\n");
  tree.put("sys/fs/cgroup/a/memory.max", "1000000\n");
  tree.put("sys/fs/cgroup/a/memory.current", "999999\n");  // caches, maybe
  EXPECT_EQ(usable_memory(tree.roots()), 1'000'000);
}

TEST(Machine, LimitsDoNotLeaveTheTree) {
  const MachineTree tree;
  tree.put("proc/self/cgroup", "0::/../../outside\n");
  tree.put("outside/cpu.max", "1 100000\n");
  EXPECT_FALSE(LimitReader().read(tree.roots(), 1).cpus);
}

TEST(Machine, Processes) {
  const MachineTree tree;
  tree.put_process(7, "a) b (c", 100, 55);
  tree.put("proc/7/cmdline", std::string("train\0--lr\0"
                                         "1\0",
                                         13));
  tree.put("proc/7/io", "rchar: 1\nread_bytes: 1000\nwrite_bytes: 0\ncancelled_write_bytes: -5\n");
  tree.put("proc/7/task/7/stat", "7 (main) R 1 1 1 0 -1 0 0 0 0 0 10 0 0 0 20 0 1 0 55 1 1\n");
  tree.put_process(8, "kernel", 0, 5);
  tree.put("proc/self/stat", "no number");
  MachineReader reader(tree.roots());
  MachineReading r = reader.read(0, 7);
  ASSERT_EQ(r.processes.size(), 2u);
  const ProcessReading& first = r.processes[0];
  EXPECT_EQ(first.name, "a) b (c");
  EXPECT_EQ(first.command, "train --lr 1");
  EXPECT_EQ(first.uid, geteuid());
  EXPECT_EQ(first.threads, 3);
  EXPECT_EQ(first.resident, 25 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(first.cores, 0);  // not all the time since the process began
  EXPECT_TRUE(r.processes[1].command.empty());

  const auto hertz = static_cast<int>(sysconf(_SC_CLK_TCK));
  tree.put_process(7, "a) b (c", 100 + 2 * hertz, 55);
  tree.put("proc/7/io", "read_bytes: 5000\nwrite_bytes: 300\n");
  tree.put("proc/7/task/7/stat", "7 (main) R 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(10 + hertz) +
                                     " 0 0 0 20 0 1 0 55 1 1\n");
  r = reader.read(2, 7);
  EXPECT_DOUBLE_EQ(process_of(r, 7)->cores, 1);
  EXPECT_DOUBLE_EQ(process_of(r, 7)->read.value(), 2000);
  EXPECT_DOUBLE_EQ(process_of(r, 7)->written.value(), 150);
  EXPECT_FALSE(process_of(r, 8)->read);
  ASSERT_EQ(r.threads.size(), 1u);
  EXPECT_EQ(r.threads[0].name, "main");
  EXPECT_DOUBLE_EQ(r.threads[0].cores, 0.5);

  tree.put("proc/7/io", "read_bytes: 9000\nwrite_bytes: 300\n");  // it had no time to read them yet
  EXPECT_EQ(process_of(reader.read(4), 7)->read.value(), 0);
  tree.put_process(7, "a) b (c", 101 + 2 * hertz, 55);
  r = reader.read(12);
  EXPECT_DOUBLE_EQ(process_of(r, 7)->read.value(), 500);  // told now, as of the last 8 s
  EXPECT_EQ(process_of(r, 7)->written.value(), 0);
}

TEST(Machine, TheBusiestThreadOfABusyProcess) {
  const MachineTree tree;
  const auto hertz = static_cast<int>(sysconf(_SC_CLK_TCK));
  const auto put = [&](int64_t pid, int64_t tid, const std::string& name, int ticks) {
    tree.put(
        fmt::format("proc/{}/task/{}/stat", pid, tid),
        fmt::format("{} ({}) R 1 1 1 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0 55 1 1\n", tid, name, ticks));
  };
  MachineReader reader(tree.roots());
  for (int second = 0; second < 3; ++second) {
    tree.put_process(7, "python3", second * 3 * hertz / 2, 55);
    put(7, 7, "main", second * hertz);
    put(7, 9, "helper", second * hertz / 2);
    tree.put_process(8, "idle", second * hertz / 4, 55);
    put(8, 8, "idle", second * hertz / 4);
    const MachineReading r = reader.read(second);
    EXPECT_FALSE(process_of(r, 8)->busiest) << second;
    ASSERT_EQ(process_of(r, 7)->busiest.has_value(), second == 2) << second;
    if (second < 2) continue;  // of which there is no reading before
    EXPECT_EQ(process_of(r, 7)->busiest->name, "main");
    EXPECT_DOUBLE_EQ(process_of(r, 7)->busiest->cores, 1);
  }
}

TEST(Machine, ANumberThatIsGivenAgainIsAnotherProcess) {
  const MachineTree tree;
  tree.put_process(7, "old", 100, 55);
  tree.put("proc/7/cmdline", "old");
  MachineReader reader(tree.roots());
  (void)reader.read(0);
  tree.put_process(7, "old", 100000, 99);
  tree.put("proc/7/cmdline", "new");
  const MachineReading r = reader.read(1);
  EXPECT_EQ(process_of(r, 7)->cores, 0);
  EXPECT_EQ(process_of(r, 7)->command, "new");
  tree.put_process(7, "execed", 100000, 99);  // the same one executes another program
  tree.put("proc/7/cmdline", "execed --now");
  EXPECT_EQ(process_of(reader.read(2), 7)->command, "execed --now");
}

TEST(Machine, DamagedTreesTellNothing) {
  const MachineTree tree;
  const std::string huge(3 << 20, '9');
  for (const std::string& text :
       {std::string(), std::string("\xff\xfe\0\x80", 4), huge, std::string("cpu0 -1 -2\ncpu: :\n"),
        std::string("1 (a"), std::string("1 )("), std::string("cpu99999999999999999999 1 2 3\n"),
        "sda " + huge, std::string("some avg10= total=\n"), std::string(":::\n0:\n")}) {
    for (const char* path :
         {"proc/stat", "proc/cpuinfo", "proc/meminfo", "proc/pressure/cpu", "proc/diskstats",
          "proc/net/dev", "proc/self/cgroup", "proc/7/stat", "proc/7/cmdline", "proc/7/io",
          "proc/7/task/7/stat", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/memory.max"})
      tree.put(path, text);
    MachineReader reader(tree.roots());
    (void)reader.read(0, 7);
    const MachineReading r = reader.read(1, 7);
    for (const CoreReading& core : r.cores) EXPECT_TRUE(core.busy() >= 0 && core.busy() <= 1);
    EXPECT_FALSE(process_of(r, 7));
    EXPECT_GE(r.memory.total, r.memory.available);
    EXPECT_FALSE(r.limits.cpus);
  }
}

TEST(Machine, APipeInPlaceOfAFileIsNotWaitedFor) {
  const MachineTree tree;
  fs::create_directories(tree.roots().proc);
  ASSERT_EQ(mkfifo((tree.roots().proc + "/stat").c_str(), 0600), 0);
  EXPECT_TRUE(MachineReader(tree.roots()).read(0).cores.empty());
  EXPECT_TRUE(MachineReader({.proc = "/nowhere", .sys = "/nowhere"}).read(0).processes.empty());
}

TEST(Machine, ThisOne) {
  MachineReader reader;
  (void)reader.read(steady_seconds(), getpid());
  const double until = steady_seconds() + 0.2;
  double sum = 0;
  while (steady_seconds() < until) sum += std::sqrt(sum + 1);
  EXPECT_GT(sum, 0);
  const MachineReading r = reader.read(steady_seconds(), getpid());
  EXPECT_GE(r.seconds, 0.2);
  EXPECT_FALSE(r.cores.empty());
  EXPECT_GT(r.memory.total, 1 << 20);
  const ProcessReading* own = process_of(r, getpid());
  ASSERT_NE(own, nullptr);
  EXPECT_GT(own->cores, 0);
  EXPECT_GT(own->resident, 1 << 20);
  EXPECT_EQ(own->uid, getuid());
  EXPECT_FALSE(r.threads.empty());
}

}  // namespace
}  // namespace brim::diag
