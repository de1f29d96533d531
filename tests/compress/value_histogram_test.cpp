// Ranges of integers, chosen of the values that were seen.
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <vector>

namespace brim::compress {
namespace {

double square_error(const Tensor& x, const QuantParams& p) {
  return sum(square(fake_quantize(x, p) - x)).item();
}

TEST(ValueHistogram, KnowsRanges) {
  manual_seed(1);
  const Tensor x = exp(randn({40000}) * 1.5);  // many small values, some far out
  ValueHistogram h;
  for (int i = 0; i < 4; ++i) h.add(x.slice(0, 10000 * i, 10000 * (i + 1)));
  h.add(Tensor::empty({0}));
  EXPECT_EQ(h.count(), 40000);
  const QuantParams all = h.params(Calibration::min_max), mse = h.params(Calibration::mse),
                    entropy = h.params(Calibration::entropy),
                    percentile = h.params(Calibration::percentile);
  EXPECT_NEAR(all.max(), max(x).item(), 0.01 * all.max());
  EXPECT_LT(square_error(x, mse), square_error(x, all));
  EXPECT_LE(square_error(x, mse), square_error(x, entropy));
  EXPECT_LE(square_error(x, mse), square_error(x, percentile));
  EXPECT_LT(entropy.max(), mse.max());  // cares for the many
  const std::vector<double> above = sum((x > percentile.max() + 0.5).to(f64)).to_vector<double>();
  EXPECT_NEAR(above[0], 4, 2);  // 0.01 % of them
  EXPECT_NEAR(h.params(Calibration::percentile, 100).max(), all.max(), 0.01 * all.max());
  // Of one-sided values the steps are all on that side.
  EXPECT_EQ(mse.zero_point, 0);
  ValueHistogram negative;
  negative.add(-x);
  EXPECT_EQ(negative.params(Calibration::mse).zero_point, 255);
}

TEST(ValueHistogram, GrowsWithItsValues) {
  ValueHistogram h;
  std::vector<float> all;
  for (const float scale : {1e-3F, 1.0F, 300.0F, 1e6F})
    for (int i = -20; i <= 20; ++i) {
      all.push_back(scale * static_cast<float>(i));
      h.add(full({1}, all.back()));
    }
  EXPECT_EQ(h.count(), static_cast<int64_t>(all.size()));
  EXPECT_EQ(h.min(), -2e7);
  EXPECT_EQ(h.max(), 2e7);
  // Half of the values are within the smaller steps.
  EXPECT_LT(h.params(Calibration::percentile, 60).max(), 1e5);
}

TEST(ValueHistogram, BeginsWithZeros) {
  for (const double far : {1.0, 1e-20, 1e30}) {
    ValueHistogram h;
    h.add(zeros({10}));
    h.add(Tensor::from<float>({static_cast<float>(far * 1e-20), static_cast<float>(far)}, {2}));
    EXPECT_EQ(h.count(), 12);
    EXPECT_NEAR(h.params(Calibration::percentile, 100).max() / far, 1, 0.01);
    EXPECT_NEAR(h.params(Calibration::min_max).max() / far, 1, 0.01);
    EXPECT_EQ(h.params(Calibration::percentile, 60).zero_point, 0);
  }
  for (const double far : {1e16, 1e38}) {
    ValueHistogram wide;
    for (const double v : {1.0, far, -far}) wide.add(full({1}, v));
    EXPECT_NEAR(wide.params(Calibration::percentile, 100).max() / far, 1, 0.02);
  }
  ValueHistogram grows;
  grows.add(full({4}, 1e-30));
  grows.add(full({4}, 1e30));
  grows.add(full({4}, -1e30));
  EXPECT_NEAR(grows.params(Calibration::mse).max() / 1e30, 1, 0.05);
}

TEST(ValueHistogram, RefusesNonsense) {
  ValueHistogram h;
  EXPECT_THROW((void)h.params(Calibration::mse), ValueError);
  EXPECT_THROW(h.add(full({2}, NAN)), ValueError);
  EXPECT_THROW(h.add(full({2}, INFINITY)), ValueError);
  h.add(zeros({3}));
  for (const Calibration c :
       {Calibration::min_max, Calibration::percentile, Calibration::mse, Calibration::entropy})
    EXPECT_EQ(h.params(c), QuantParams());
  EXPECT_THROW((void)h.params(Calibration::percentile, 40), ValueError);
  EXPECT_THROW((void)h.params(Calibration::percentile, NAN), ValueError);
  EXPECT_THROW(parse_calibration("max"), ValueError);
  EXPECT_EQ(parse_calibration("entropy"), Calibration::entropy);
}

}  // namespace
}  // namespace brim::compress
