// Vectorised conversions of 16-bit floats against the scalar ones, and f32 kernels behind them.
#include "backend/cpu/elementwise/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

template <class T>
void check_widening() {
  std::vector<T> from(65536);
  for (size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<uint16_t>(i);
  std::vector<float> to(from.size());
  cpu::convert_run(from.data(), to.data(), static_cast<int64_t>(to.size()) - 3);
  cpu::convert_run(from.data() + 65533, to.data() + 65533, 3);  // shorter than a vector
  for (size_t i = 0; i < to.size(); ++i) {
    const float want = static_cast<float>(from[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(to[i]) : to[i] == want) << i;
    ASSERT_EQ(std::signbit(to[i]), std::signbit(want)) << i;
  }
}

/// Every upper half of a float, with lower halves around the ties of both types.
template <class T>
void check_narrowing() {
  std::vector<float> from;
  for (uint32_t high = 0; high < 65536; ++high)
    for (const uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u,
                               0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu})
      from.push_back(std::bit_cast<float>(high << 16 | low));
  std::vector<T> to(from.size());
  cpu::convert_run(from.data(), to.data(), static_cast<int64_t>(to.size()));
  for (size_t i = 0; i < to.size(); ++i) {
    if (std::isnan(from[i]))
      ASSERT_TRUE(std::isnan(static_cast<float>(to[i]))) << i;
    else
      ASSERT_EQ(to[i].bits, T(from[i]).bits) << from[i];
  }
}

TEST(Convert16, WidensHalf) { check_widening<Half>(); }
TEST(Convert16, WidensBFloat16) { check_widening<BFloat16>(); }
TEST(Convert16, NarrowsHalf) { check_narrowing<Half>(); }
TEST(Convert16, NarrowsBFloat16) { check_narrowing<BFloat16>(); }

TEST(ThroughF32, SumsInF32) {
  // In f16 itself the sum would stay at 2048.
  EXPECT_EQ(sum(ones({60000}, {.dtype = f16})).item(), 60000);
  EXPECT_TRUE(std::isinf(sum(ones({70000}, {.dtype = f16})).item()));
}

// Several blocks and a part of one; results of the same type, of another, and in place.
TEST(ThroughF32, ElementwiseIsThatOfF32Rounded) {
  const int64_t n = 3 * 1024 + 5;
  for (const DType dtype : {f16, bf16}) {
    const Tensor a = randn({n}).to(dtype), b = randn({n}).to(dtype);
    const Tensor wa = a.to(f32), wb = b.to(f32);
    const auto same = [&](const Tensor& narrow, const Tensor& wide) {
      ASSERT_EQ(narrow.dtype(), dtype);
      EXPECT_EQ(narrow.to(f32).to_vector<float>(), wide.to(dtype).to(f32).to_vector<float>());
    };
    same(exp(a), exp(wa));
    same(sin(a), sin(wa));
    same(a * b, wa * wb);
    same(a.slice(0, 1, n) - b.slice(0, 0, n - 1), wa.slice(0, 1, n) - wb.slice(0, 0, n - 1));
    EXPECT_EQ((a < b).to_vector<bool>(), (wa < wb).to_vector<bool>());
    Tensor sum = a.clone();
    sum.add_(b);
    same(sum, wa + wb);
  }
}

TEST(ThroughF32, KeepsTheMemoryFormat) {
  manual_seed(3);
  const Tensor x = randn({2, 16, 5, 6}).to(bf16), w = randn({16, 16, 3, 3}).to(bf16);
  const Tensor y = conv2d(x, w), turned = conv2d(x.to(MemoryFormat::nhwc), w);
  EXPECT_TRUE(turned.is_contiguous(MemoryFormat::nhwc));
  const std::vector<float> a = y.to(f32).to_vector<float>();
  const std::vector<float> b = turned.to(f32).contiguous().to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.008 * (1 + std::abs(a[i])));
}

}  // namespace
}  // namespace brim
