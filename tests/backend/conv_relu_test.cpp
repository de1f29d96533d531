// conv2d_relu against conv2d with relu behind it on the CPU: the same numbers, whichever of its
// kernels computes. (Virtual accelerators: sim_test.cpp; CUDA: cuda/fused_test.cpp, and by cuDNN
// plans_test.cpp.)
#include "backend/conv_relu.h"

#include <cmath>
#include <limits>

#include "threads.h"

namespace brim {
namespace {

using tests::conv_relu_cases;
using tests::ConvReluCase;
using tests::ConvReluOperands;

TEST(ConvRelu, HasTheBitsOfTheOps) {
  manual_seed(1);
  for (const ConvReluCase& c : conv_relu_cases())
    for (const DType dtype : {f32, f64, f16, bf16})
      for (const bool has_bias : {true, false}) {
        const ConvReluOperands operands(c, dtype, has_bias);
        const Tensor y = operands.fused(c), want = operands.by_ops(c);
        EXPECT_EQ(y.strides(), want.strides()) << c.what;
        EXPECT_EQ(numbers(y), numbers(want)) << c.what << " " << name(dtype);
      }
}

TEST(ConvRelu, DoesNotDependOnThreads) {
  manual_seed(2);
  for (const ConvReluCase& c : conv_relu_cases()) {
    const ConvReluOperands operands(c, f32, true);
    const auto on = [&](int threads) {
      const tests::Threads guard(threads);
      return numbers(operands.fused(c));
    };
    EXPECT_EQ(on(1), on(2)) << c.what;
  }
}

TEST(ConvRelu, KeepsNaN) {
  manual_seed(3);
  for (const ConvReluCase& c : conv_relu_cases()) {
    const ConvReluOperands operands(c, f32, true);
    if (operands.x.numel() == 0) continue;
    operands.bias.slice(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    const Tensor y = operands.fused(c);
    for (const double v : numbers(y.slice(1, 0, 1))) EXPECT_TRUE(std::isnan(v)) << c.what;
    for (const double v : numbers(y.slice(1, 1, y.size(1)))) EXPECT_GE(v, 0) << c.what;
  }
}

}  // namespace
}  // namespace brim
