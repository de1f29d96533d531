// 1x1 convolutions and their gradients in 16 bits, in both memory formats, whichever instruction
// set has products of them, against the same numbers in f64.
#include <gtest/gtest.h>

#include <brim/brim.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/expect_close.h"
#include "threads.h"

namespace brim {
namespace {

struct Pixels {
  int64_t images, channels, height, width, outputs;

  std::string str() const {
    return std::to_string(images) + " x " + std::to_string(channels) + " x " +
           std::to_string(height) + " x " + std::to_string(width) + " -> " +
           std::to_string(outputs);
  }
};

constexpr Pixels kSizes[] = {{1, 1, 1, 1, 1},  {2, 3, 5, 7, 4},     {0, 3, 5, 7, 4},
                             {3, 16, 4, 4, 1}, {2, 1, 9, 3, 20},    {5, 70, 6, 11, 33},
                             {9, 40, 7, 7, 8}, {2, 1100, 5, 5, 12}, {1, 12, 40, 40, 70}};

/// y, dx, dw and db.
std::vector<std::vector<double>> results(const Pixels& s, DType dtype, DType computed,
                                         MemoryFormat format, Pair stride) {
  manual_seed(3);
  const auto made = [&](const Shape& shape) { return randn(shape).to(dtype).to(computed); };
  Tensor x = made({s.images, s.channels, s.height, s.width}).to(format);
  Tensor w = made({s.outputs, s.channels, 1, 1}), b = made({s.outputs});
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor y = conv2d(x, w, b, {.stride = stride});
  y.backward(made(y.shape()).to(format));
  return {numbers(y), numbers(x.grad()), numbers(w.grad()), numbers(b.grad())};
}

class ConvPointwise16Bits : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, ConvPointwise16Bits, testing::Values(DType::f16, DType::bf16));

TEST_P(ConvPointwise16Bits, AsF64Rounded) {
  const double unit = GetParam() == DType::f16 ? 0x1p-10 : 0x1p-7;
  for (const Pixels& s : kSizes)
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const int64_t stride : {1, 2}) {
        const auto expected = results(s, GetParam(), DType::f64, format, stride);
        std::vector<std::vector<double>> one;
        for (const int threads : {1, 3}) {
          const tests::Threads guard(threads);
          const auto actual = results(s, GetParam(), GetParam(), format, stride);
          if (threads == 1) one = actual;
          EXPECT_EQ(actual, one) << s.str() << " depends on the threads";
          for (size_t i = 0; i < actual.size(); ++i) {
            double largest = 1;
            for (const double v : expected[i]) largest = std::max(largest, std::fabs(v));
            ASSERT_EQ(actual[i].size(), expected[i].size());
            for (size_t j = 0; j < actual[i].size(); ++j)
              ASSERT_NEAR(actual[i][j], expected[i][j], unit * largest)
                  << s.str() << ", result " << i << " at " << j;
          }
        }
      }
}

}  // namespace
}  // namespace brim
