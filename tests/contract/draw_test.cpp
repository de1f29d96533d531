// unique, and what draws categories, on every backend.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>
#include <brim/plan/compile.h>

#include <map>

#include "contract/contract.h"
#include "contract/harness.h"
#include "contract/positions.h"
#include "message_of.h"

namespace brim::contract {
namespace {

Tensors unique_of(const Tensor& x) {
  const Unique u = unique(x);
  return {u.values, u.inverse, u.counts};
}

CONTRACT(unique) {
  return {
      .op = [](Tensor x) { return unique_of(remainder(x, 3)); },
      .inputs = {{{.shape = {50}, .low = 0, .high = 9}},
                 {{.shape = {4, 5}, .low = 0, .high = 9}},
                 {{.shape = {}, .low = 0, .high = 9}},
                 {{.shape = {2, 0}, .low = 0, .high = 9}}},
      .reference =
          [](Tensor x) {
            std::map<double, double> counts;
            for (const double v : values(remainder(x, 3))) ++counts[v];
            std::vector<double> keys, numbers, inverse;
            for (const auto& [v, n] : counts) keys.push_back(v), numbers.push_back(n);
            for (const double v : values(remainder(x, 3)))
              inverse.push_back(static_cast<double>(std::distance(counts.begin(), counts.find(v))));
            const Shape k = {static_cast<int64_t>(keys.size())};
            return Tensors{array(keys, k), array(inverse, x.shape(), i64), array(numbers, k, i64)};
          },
      .dtypes = {f64, i64, i32, u8},
      .gradient = false};
}

TEST(Unique, OfOtherTypes) {
  for (const Device device : devices()) {
    const Unique bits = unique(Tensor::from<bool>({true, false, true}, {3}).to(device));
    EXPECT_EQ(bits.values.to_vector<bool>(), (std::vector<bool>{false, true}));
    EXPECT_EQ(bits.counts.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
    const Unique floats =
        unique(Tensor::from<float>({NAN, -0.0f, 0, -1, NAN}, {5}).to(f16).to(device));
    EXPECT_EQ(floats.counts.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 1, 1}));
    EXPECT_EQ(floats.inverse.to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 1, 0, 3}));
  }
}

/// Shares of the categories that were drawn.
std::vector<double> shares(const Tensor& drawn, int64_t categories) {
  std::vector<double> share(static_cast<size_t>(categories));
  const std::vector<int64_t> all = drawn.to_vector<int64_t>();
  for (const int64_t i : all)
    share.at(static_cast<size_t>(i)) += 1.0 / static_cast<double>(all.size());
  return share;
}

TEST(Multinomial, DrawsByWeight) {
  const std::vector<double> weights = {0, 1, 2, 0, 5, 0}, want = {0, 0.125, 0.25, 0, 0.625, 0};
  for (const Device device : devices())
    for (const DType dtype : {f32, f64, f16, bf16}) {
      Generator generator(7);
      const Tensor w = Tensor::from(weights, {6}).to(dtype).to(device);
      const Tensor many = multinomial(w, 20000, true, &generator);
      EXPECT_EQ(many.shape(), (Shape{20000}));
      const std::vector<double> got = shares(many, 6);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.02) << i;
      EXPECT_EQ(got[0] + got[3] + got[5], 0);
      // The first of several without replacement has the same distribution.
      const Tensor firsts = multinomial(w.expand({20000, 6}), 3, false, &generator);
      const std::vector<double> first = shares(firsts.select(1, 0), 6);
      for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], want[i], 0.02) << i;
      for (int64_t row = 0; row < 20; ++row) {
        std::vector<int64_t> drawn = firsts[row].to_vector<int64_t>();
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(drawn, (std::vector<int64_t>{1, 2, 4}));
      }
    }
}

TEST(Multinomial, IsTheSameOnEveryDevice) {
  const Tensor w = rand({5, 40}) + 0.01;
  for (const bool replacement : {false, true}) {
    Generator here(3);
    const auto want = multinomial(w, 30, replacement, &here).to_vector<int64_t>();
    for (const Device device : devices()) {
      Generator there(3);
      EXPECT_EQ(multinomial(w.to(device), 30, replacement, &there).to_vector<int64_t>(), want)
          << device.str();
    }
  }
}

TEST(Multinomial, DrawsAnewInEachCompiledStep) {
  for (const Device device : devices()) {
    auto step = compile([](const Tensor& w) {
      return std::vector{multinomial(w, 50, true), multinomial(w, 3, false)};
    });
    const Tensor w = Tensor::from<float>({0, 1, 2, 0, 5, 0}, {6}).to(device);
    std::vector<std::vector<int64_t>> drawn;
    for (int i = 0; i < 3; ++i) {
      const Tensors got = step(w);
      drawn.push_back(got[0].to_vector<int64_t>());
      for (const int64_t category : drawn.back())
        EXPECT_TRUE(category == 1 || category == 2 || category == 4) << category;
      EXPECT_EQ(sum(got[1]).item<int64_t>(), 1 + 2 + 4);
    }
    EXPECT_NE(drawn[0], drawn[1]);
    EXPECT_NE(drawn[1], drawn[2]);
  }
}

TEST(Multinomial, ErrorsNameTheWeight) {
  const auto message = [](std::vector<float> weights, int64_t samples, bool replacement) {
    const int64_t n = static_cast<int64_t>(weights.size());
    return tests::message_of([&] {
      multinomial(Tensor::from(weights, {1, n}), samples, replacement);
    });
  };
  EXPECT_EQ(message({1, -2}, 1, true),
            "[multinomial] weight -2 of category 1 in row 0 is not a finite number of 0 or more");
  EXPECT_NE(message({NAN}, 1, true).find("weight nan"), std::string::npos);
  EXPECT_EQ(message({0, 0}, 1, true),
            "[multinomial] row 0 has 0 categories with a weight for 1 samples with replacement");
  EXPECT_NE(message({1, 0, 1}, 3, false).find("2 categories with a weight for 3 samples"),
            std::string::npos);
  EXPECT_NE(message({1, 1}, 3, false).find("take fewer"), std::string::npos);
  EXPECT_THROW(multinomial(ones({2}), 0), ValueError);
  EXPECT_THROW(multinomial(ones({2, 2, 2}), 1), ShapeError);
  EXPECT_THROW(multinomial(ones({2}, {.dtype = i64}), 1), DTypeError);
}

TEST(Random, LikeAnotherTensor) {
  for (const Device device : devices()) {
    Generator a(3), b(3);
    const Tensor x = zeros({2, 3}, {.dtype = f64, .device = device}).t();
    EXPECT_EQ(rand_like(x, &a).to_vector<double>(),
              rand({3, 2}, {.dtype = f64, .device = device}, &b).to_vector<double>());
    EXPECT_EQ(randn_like(x, &a).to_vector<double>(),
              randn({3, 2}, {.dtype = f64, .device = device}, &b).to_vector<double>());
    EXPECT_EQ(rand_like(x).device(), device);
  }
  EXPECT_THROW(rand_like(zeros({2}, {.dtype = i64})), DTypeError);
}

}  // namespace
}  // namespace brim::contract
