// recompute on a GPU: normalisations are made twice only where memory is short.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <brim/brim.h>

#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"

namespace brim {
namespace {

class CudaRecompute : public ::testing::Test {
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
    return std::any_of(program.launches.begin(), program.launches.end(), [](const auto& launch) {
      return plan::is(*launch, "batch_norm_relu_again");
    });
  }
};

TEST_F(CudaRecompute, OnlyWhereMemoryIsShort) {
  Allocator& memory = Allocator::of(Device::cuda());
  plan::Program ample = program();
  const auto bytes = static_cast<int64_t>(plan::plan_memory(ample, true).bytes);
  ASSERT_GT(bytes, int64_t{4} << 20);
  EXPECT_NE(plan::recompute(ample).find("not needed"), std::string::npos);
  EXPECT_FALSE(repeats(ample));

  plan::Program half = program();
  memory.set_limit(memory.stats().live + 2 * bytes);
  EXPECT_NE(plan::recompute(half).find("not needed"), std::string::npos);
  EXPECT_FALSE(repeats(half));

  plan::Program more = program();
  memory.set_limit(memory.stats().live + 2 * bytes - 2);
  EXPECT_NE(plan::recompute(more).find("made twice"), std::string::npos);
  EXPECT_TRUE(repeats(more));
  EXPECT_LT(static_cast<int64_t>(plan::plan_memory(more, true).bytes), bytes);
}

}  // namespace
}  // namespace brim
