// A rank that calls exit() while Open MPI carries its group's messages.
#include <brim/dist/launch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "dist/run_ranks.h"

namespace brim::dist {
namespace {

/// What each process of the test below does.
TEST(MpiExit, DISABLED_Rank) {
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

TEST(MpiExit, IsNamed) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "needs Open MPI's mpirun";
  const std::string command =
      "BRIM_DIST_BACKEND=mpi timeout 120 mpirun --allow-run-as-root --oversubscribe --mca plm "
      "isolated -n 3 " +
      std::filesystem::read_symlink("/proc/self/exe").string() +
      " --gtest_filter=MpiExit.DISABLED_Rank --gtest_also_run_disabled_tests 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_TRUE(pipe);
  std::string output;
  char part[4096];
  while (const size_t got = fread(part, 1, sizeof(part), pipe)) output.append(part, got);
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_TRUE(has(output, "rank 1 has ended, and rank ")) << output;
  EXPECT_FALSE(has(output, "60 s")) << output;
}

}  // namespace
}  // namespace brim::dist
