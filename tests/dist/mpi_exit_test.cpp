// Ranks that call exit() while Open MPI carries their group's messages.
#include <brim/dist/launch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "dist/run_ranks.h"
#include "sanitized.h"

namespace brim::dist {
namespace {

// What each process of the tests below does.

TEST(MpiExit, DISABLED_OneExitsEarly) {
  const LaunchEnvironment launched = launch_environment();
  ASSERT_EQ(launched.size, 3);
  ASSERT_EQ(launched.backend, "mpi");
  const GroupPtr world = open_world(launched, {.timeout = 60});
  world->barrier();
  if (world->rank() == 1) std::exit(3);
  try {
    world->barrier();
  } catch (const DistError& e) {
    std::cout << "rank " << world->rank() << " met: " << e.what()
              << std::endl;  // NOLINT(performance-avoid-endl): it is killed
    std::exit(1);
  }
}

TEST(MpiExit, DISABLED_EachExitsAtItsTime) {
  constexpr double kHeartbeatTimeout = 1.5;
  const GroupPtr world = open_world(launch_environment(), {.heartbeat_timeout = kHeartbeatTimeout});
  world->barrier();
  // Rank 1 exits soon after rank 0; rank 2 when both have waited for longer than the heartbeat's
  // limit.
  const double seconds[] = {0, 0.3, 0.3 + 2 * kHeartbeatTimeout};
  std::this_thread::sleep_for(
      std::chrono::duration<double>(seconds[static_cast<size_t>(world->rank())]));
  std::exit(0);
}

/// The exit status of mpirun with 3 processes, each of which runs the test `name`, and what they
/// printed.
std::pair<int, std::string> run_by_mpirun(const std::string& name) {
  // Open MPI keeps memory to the process's end, which a sanitizer takes for leaks.
  const std::string command =
      "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 BRIM_DIST_BACKEND=mpi timeout 120 mpirun "
      "--allow-run-as-root --oversubscribe --mca plm "
      "isolated -n 3 " +
      std::filesystem::read_symlink("/proc/self/exe").string() + " --gtest_filter=MpiExit." + name +
      " --gtest_also_run_disabled_tests 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return {-1, "popen failed"};
  std::string output;
  char part[4096];
  while (const size_t got = fread(part, 1, sizeof(part), pipe)) output.append(part, got);
  return {pclose(pipe), output};
}
/// Why the tests cannot run here, or "".
std::string why_not() {
  if (BRIM_THREAD_SANITIZED) return "Open MPI is not instrumented";
  return std::system("command -v mpirun >/dev/null") == 0 ? "" : "needs Open MPI's mpirun";
}

TEST(MpiExit, IsNamed) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto [status, output] = run_by_mpirun("DISABLED_OneExitsEarly");
  EXPECT_NE(status, 0);
  EXPECT_TRUE(has(output, "rank 1 has ended, and rank ")) << output;
  EXPECT_FALSE(has(output, "60 s")) << output;
}

TEST(MpiExit, IsNoFailureWhereRanksExitAtDifferentTimes) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto [status, output] = run_by_mpirun("DISABLED_EachExitsAtItsTime");
  EXPECT_EQ(status, 0) << output;
}

}  // namespace
}  // namespace brim::dist
