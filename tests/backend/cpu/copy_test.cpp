// Copies of transposed tensors, which go through tiles, against element by element; fill.
#include <gtest/gtest.h>

#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

namespace brim {
namespace {

/// The value at a position of a tensor of any strides, read as f64.
double value_at(const Tensor& x, int64_t i, int64_t j, int64_t k) {
  return x.select(0, i).select(0, j).select(0, k).to(f64).item();
}

void check_same(const Tensor& copy, const Tensor& view) {
  ASSERT_EQ(copy.shape(), view.shape());
  for (int64_t i = 0; i < view.size(0); ++i)
    for (int64_t j = 0; j < view.size(1); j += 3)
      for (int64_t k = 0; k < view.size(2); k += 5)
        ASSERT_EQ(value_at(copy, i, j, k), value_at(view, i, j, k)) << i << " " << j << " " << k;
}

TEST(CopyTransposed, EverySizeOfElements) {
  for (const DType dtype : {u8, i8, f16, bf16, f32, i32, f64, i64})
    for (const Shape& shape :
         {Shape{2, 37, 70}, Shape{1, 8, 9}, Shape{3, 64, 32}, Shape{2, 5, 40}}) {
      const Tensor x = remainder(arange(shape.numel()), 101).view(shape).to(dtype);
      check_same(x.transpose(1, 2).contiguous(), x.transpose(1, 2));
      check_same(x.transpose(0, 2).contiguous(), x.transpose(0, 2));
      check_same(x.permute({2, 0, 1}).contiguous(), x.permute({2, 0, 1}));
    }
}

TEST(CopyTransposed, LongAndNarrow) {
  const Tensor x = arange(3 * 2500 * 9).to(f32).view({3, 2500, 9});
  check_same(x.transpose(1, 2).contiguous(), x.transpose(1, 2));
  check_same(x.transpose(1, 2).to(f64).contiguous(), x.transpose(1, 2));
  const Tensor wide = x.view({3, 9, 2500});
  check_same(wide.transpose(1, 2).contiguous(), wide.transpose(1, 2));
}

// Columns that lie whole pages apart are written one after the other.
TEST(CopyTransposed, ColumnsAtDistancesOfPages) {
  for (const DType dtype : {u8, bf16, f32, f64})
    for (const int64_t channels : {8, 37, 70}) {
      const Tensor x = remainder(arange(2 * 4096 * channels), 101).to(dtype);
      const Tensor pixels = x.view({2, 4096, channels}).transpose(1, 2);
      const Tensor planes = pixels.contiguous();
      EXPECT_TRUE(all(eq(planes.transpose(1, 2).contiguous().view({x.numel()}), x)).item<bool>());
      for (const int64_t channel : {int64_t{0}, channels / 2, channels - 1})
        EXPECT_TRUE(all(eq(planes.select(1, channel), pixels.select(1, channel))).item<bool>());
    }
}

TEST(CopyTransposed, WithACast) {
  for (const DType from : {u8, f16, bf16, f32, f64, i64})
    for (const DType to : {u8, f16, bf16, f32, f64, i32}) {
      const Tensor x = remainder(arange(2 * 37 * 70), 101).view({2, 37, 70}).to(from);
      const Tensor copy = zeros({2, 70, 37}, {.dtype = to});
      Tensor(copy).copy_(x.transpose(1, 2));
      check_same(copy, x.transpose(1, 2));
    }
}

TEST(CopyTransposed, PartsOfTensors) {
  const Tensor x = arange(4 * 50 * 90).to(f32).view({4, 50, 90});
  const Tensor part = x.slice(1, 3, 47).slice(2, 5, 80).transpose(1, 2);
  check_same(part.contiguous(), part);
  Tensor y = zeros({4, 80, 60});
  Tensor to = y.slice(1, 2, 77).slice(2, 7, 51);
  to.copy_(part);
  check_same(to, part);
  EXPECT_EQ(y.select(0, 0).select(0, 1).to_vector<float>(), std::vector<float>(60, 0.0f));
  EXPECT_EQ(y.select(0, 0).select(0, 77).to_vector<float>(), std::vector<float>(60, 0.0f));
}

TEST(Fill, EveryElementOfEveryLength) {
  for (const int64_t n : {1, 7, 1023, 1024, 1025, 4096, 4097, 100003}) {
    const size_t count = static_cast<size_t>(n);
    EXPECT_EQ(full({n}, 2.5).to_vector<float>(), std::vector<float>(count, 2.5f));
    EXPECT_EQ(full({n}, -3, {.dtype = f16}).to(f32).to_vector<float>(),
              std::vector<float>(count, -3.0f));
    EXPECT_EQ(full({n}, true, {.dtype = DType::bool_}).to_vector<bool>(),
              std::vector<bool>(count, true));
  }
}

}  // namespace
}  // namespace brim
