// Where a GPU's memory is short, what has no room is moved to the host or computed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include <brim/brim.h>

#include "core/pinned_memory.h"
#include "core/runtime.h"
#include "message_of.h"
#include "plan/fitted_training.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"

namespace brim {
namespace {

class CudaMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }
  void TearDown() override {
    if (Device::count(DeviceKind::cuda) > 0) Allocator::of(Device::cuda()).set_limit(0);
  }

  /// A step that could make 4 MB twice, instead of keeping them while others live.
  static plan::Program program() {
    const Tensor x = empty({4, 16, 128, 128}, {.device = Device::cuda()});
    const Tensor a = empty({1024, 2}, {.device = Device::cuda()});
    const Tensor b = empty({2, 2560}, {.device = Device::cuda()});
    const plan::Step step = [&](std::span<const Tensor> in) {
      const NoGrad guard;
      const Tensor y = relu(batch_norm(in[0], {}, {}, {}, {}, {.training = true}));
      const Tensor early = sum(y), other = sum(matmul(a, b)), late = sum(y);
      return std::vector<Tensor>{early + other + late + sum(in[0])};
    };
    plan::Program made = plan::record(step, {&x, 1}, false).program;
    (void)plan::run_pass("batch_norm_relu", made);
    return made;
  }
  static bool repeats(const plan::Program& program) {
    return std::any_of(program.launches.begin(), program.launches.end(),
                       [](const auto& launch) { return plan::is(*launch, "batch_norm_again"); });
  }
};

TEST_F(CudaMemory, ComputesAgainOnlyWhereItIsShort) {
  Allocator& memory = Allocator::of(Device::cuda());
  plan::Program ample = program();
  const auto bytes = static_cast<int64_t>(plan::plan_memory(ample, true).bytes);
  ASSERT_GT(bytes, int64_t{4} << 20);
  EXPECT_NE(plan::run_pass("recompute", ample).find("not needed"), std::string::npos);
  EXPECT_FALSE(repeats(ample));

  plan::Program more = program();
  const MemoryStats stats = memory.stats();
  const int64_t held = stats.live + stats.cached - stats.idle;
  memory.set_limit(held + bytes);  // scratch memory has no room then
  EXPECT_NE(plan::run_pass("recompute", more).find("1 computed again"), std::string::npos);
  EXPECT_TRUE(repeats(more));
  EXPECT_LT(static_cast<int64_t>(plan::plan_memory(more, true).bytes), bytes);
}

/// Moved or computed again: the steps have the bits of those that had room.
TEST_F(CudaMemory, IsFittedWithoutAnotherBit) {
  const Device device = Device::cuda();
  const tests::FittedTraining free = tests::train_within(device, 0, "-layout");
  EXPECT_FALSE(free.fit);
  const auto room = static_cast<int64_t>(0.8 * static_cast<double>(free.stats.arena_bytes));
  for (const char* passes : {"-layout", "-layout,-recompute", "-layout,-offload"}) {
    const tests::FittedTraining fitted = tests::train_within(device, room, passes);
    ASSERT_TRUE(fitted.fit) << passes;
    EXPECT_TRUE(fitted.fit->fits) << passes;
    EXPECT_LE(fitted.stats.arena_bytes, room) << passes;
    EXPECT_EQ(fitted.values, free.values) << passes << "\n" << fitted.explain;
    EXPECT_TRUE(fitted.stats.host_bytes > 0 || std::string(passes) != "-layout,-recompute");
  }
}

/// What the system does not pin is computed again, with a line that says so; where nothing can be,
/// the error has the numbers.
TEST_F(CudaMemory, IsFittedWhereTheHostHasNothingToPin) {
  if (!runtime(DeviceKind::cuda).description(0).starts_with("emulated"))
    GTEST_SKIP() << "needs a host that pins nothing";
  const Device device = Device::cuda();
  const tests::FittedTraining free = tests::train_within(device, 0, "-layout");
  const auto room = static_cast<int64_t>(0.8 * static_cast<double>(free.stats.arena_bytes));
  const auto fitted = [&](int64_t pinned, const char* passes) {
    PinnedMemory::of(DeviceKind::cuda).release_cached();
    const struct Pinned {
      explicit Pinned(int64_t bytes) {
        setenv("BRIM_EMULATED_PINNED", std::to_string(bytes).c_str(), 1);
      }
      ~Pinned() { unsetenv("BRIM_EMULATED_PINNED"); }
    } limit(pinned);
    return tests::train_within(device, room, passes);
  };
  const int64_t wanted = fitted(int64_t{1} << 30, "-layout").stats.host_bytes;
  ASSERT_GT(wanted, 65536);
  for (const int64_t pinned : {wanted - 4096, int64_t{65536}}) {
    const tests::FittedTraining some = fitted(pinned, "-layout");
    ASSERT_TRUE(some.fit && some.fit->fits) << pinned;
    EXPECT_LE(some.stats.host_bytes, pinned);
    EXPECT_EQ(some.values, free.values) << pinned;
  }
  const std::string error =
      tests::message_of<OutOfMemory>([&] { (void)fitted(65536, "-layout,-recompute"); });
  EXPECT_NE(error.find("; the host did not pin "), std::string::npos) << error;
}

}  // namespace
}  // namespace brim
