// Copies and conversions across strides on CUDA: tiles of transposed matrices give the CPU's
// elements to the bit, whatever the shapes, dtypes and views.
#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include <brim/brim.h>

#include "core/runtime.h"

namespace brim {
namespace {

class CudaCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  /// x, seen in another order of its axes, becomes a contiguous tensor of the dtype.
  static Tensor copied(const Tensor& x, const std::vector<int>& order, DType dtype) {
    const Tensor seen = x.permute(std::span(order));
    Tensor y = full(seen.shape(), 1, {.dtype = dtype, .device = x.device()});
    y.copy_(seen);
    return y;
  }
  void expect_same(const Tensor& x, const std::vector<int>& order, DType dtype) const {
    const Tensor expected = copied(x, order, dtype);
    const Tensor actual = copied(x.to(gpu), order, dtype).to(Device::cpu());
    EXPECT_EQ(actual.to(f64).to_vector<double>(), expected.to(f64).to_vector<double>())
        << x.shape().str() << " " << name(x.dtype()) << " -> " << name(dtype);
  }
  const Device gpu = Device::cuda(0);
};

TEST_F(CudaCopy, TransposesOfManyShapes) {
  const std::vector<std::pair<Shape, std::vector<int>>> cases{
      {{33, 65}, {1, 0}},              // matrices
      {{8, 8}, {1, 0}},                // the least that is taken by tiles
      {{7, 200}, {1, 0}},              // less
      {{1, 64}, {1, 0}},               // no transposition at all
      {{2, 40, 9, 7}, {0, 2, 3, 1}},   // nchw to nhwc
      {{2, 9, 7, 40}, {0, 3, 1, 2}},   // and back
      {{2, 3, 33, 31}, {0, 2, 3, 1}},  // few channels
      {{3, 5, 34, 37}, {1, 0, 3, 2}},  // batches in another order
      {{12, 3, 2, 40}, {3, 1, 2, 0}},  // other dimensions between
      {{2, 2, 9, 3, 10}, {0, 4, 1, 3, 2}},
      {{0, 64, 64}, {0, 2, 1}},
      {{64, 0}, {1, 0}},
  };
  for (const auto& [shape, order] : cases) {
    expect_same(randn(shape), order, f32);
    expect_same(randn(shape), order, bf16);
  }
}

TEST_F(CudaCopy, TransposesOfEveryPairOfDtypes) {
  const Tensor numbers = randint(-100, 100, {35, 41});
  for (const DType from : {f32, f64, f16, bf16, i64, i32, i8, u8, bool_})
    for (const DType to : {f32, f64, f16, bf16, i64, i32, i8, u8, bool_})
      expect_same(numbers.to(from), {1, 0}, to);
}

TEST_F(CudaCopy, TransposesOfViews) {
  const Tensor x = randn({5, 40, 50});
  expect_same(x.slice(2, 3, 44), {0, 2, 1}, f32);  // with gaps, and off by some
  expect_same(x.slice(1, 1, 39).slice(0, 1, 4), {0, 2, 1}, f16);
  expect_same(x.select(0, 2).expand({3, 40, 50}), {0, 2, 1}, f32);  // a matrix that repeats
  expect_same(x.select(1, 7).expand({9, 5, 50}), {2, 1, 0}, f32);   // a dimension that does
}

TEST_F(CudaCopy, TransposesIntoViews) {
  const Tensor x = randn({3, 48, 20});
  const auto written = [&](Device device) {
    Tensor y = zeros({3, 30, 64}, {.device = device});
    Tensor part = y.slice(1, 4, 24).slice(2, 5, 53);
    part.copy_(x.to(device).permute({0, 2, 1}));
    return y.to(Device::cpu()).to_vector<float>();
  };
  EXPECT_EQ(written(gpu), written(Device::cpu()));
}

TEST_F(CudaCopy, MemoryFormatsAreTransposes) {
  const Tensor x = randn({2, 24, 11, 13});
  const Tensor pixels = x.to(gpu).to(MemoryFormat::nhwc);
  EXPECT_TRUE(pixels.is_contiguous(MemoryFormat::nhwc));
  EXPECT_EQ(pixels.to(Device::cpu()).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(pixels.to(MemoryFormat::nchw).to(Device::cpu()).to_vector<float>(),
            x.to_vector<float>());
}

}  // namespace
}  // namespace brim
