// What the emulation of CUDA says of kernels that a GPU would not compute right.
#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "message_of.h"

namespace brim::cuda::emulation {
namespace {

constexpr unsigned kAll = 0xffffffffu;

void run_block(unsigned threads, const std::function<void()>& body) {
  run_blocks(1, threads, 0, body);
}

TEST(EmulatedWarp, ShufflesAmongAllLanes) {
  std::vector<int> got(64);
  run_block(64, [&] {
    got[threadIdx.x] = __shfl_xor_sync(kAll, static_cast<int>(threadIdx.x), 1);
    // A thread may end as soon as it has read what it wants.
  });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i ^ 1);
}

TEST(EmulatedWarp, RefusesShufflesThatNameALaneThatHasLeft) {
  const auto shuffle = [](unsigned mask) {
    return tests::message_of<std::logic_error>([&] {
      run_block(40, [&] {
        if (threadIdx.x == 35) return;
        (void)__shfl_xor_sync(mask, 1, 1);
      });
    });
  };
  EXPECT_EQ(shuffle(kAll),
            "[cuda emulation] a shuffle or vote names lane 3 of its warp, whose thread has ended");
  EXPECT_EQ(shuffle(kAll & ~(1u << 3)), "no error");
}

TEST(EmulatedWarp, RefusesALaneThatLeavesWhileOthersWait) {
  EXPECT_THROW(run_block(32,
                         [&] {
                           (void)__ballot_sync(kAll, true);
                           if (threadIdx.x == 31) return;
                           (void)__ballot_sync(kAll, true);
                         }),
               std::logic_error);
}

TEST(EmulatedKernel, BeginsInEveryThread) {
  const auto begin_all_but = [](unsigned left_out) {
    return [left_out] {
      if (threadIdx.x != left_out) begin_kernel();
    };
  };
  const auto said = [&](unsigned left_out) {
    return tests::message_of<std::logic_error>(
        [&] { expect_begun(2, 3, [&] { run_threads(2, 3, begin_all_but(left_out)); }); });
  };
  EXPECT_EQ(said(3), "no error");
  EXPECT_EQ(said(1),
            "[cuda emulation] of a kernel's 6 threads 4 have called begin_kernel(): it is the "
            "first statement of every kernel");
  EXPECT_THROW(expect_begun(2, 40, [&] { run_blocks(2, 40, 0, begin_all_but(39)); }),
               std::logic_error);
}

}  // namespace
}  // namespace brim::cuda::emulation
