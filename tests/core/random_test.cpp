// Philox against the known answers of Random123, and the distributions drawn with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <brim/core/random.h>
#include <brim/ops/create.h>

#include "formula/philox.h"
#include "threads.h"

namespace brim {
namespace {

using formula::Words;

void expect_words(Words got, std::initializer_list<uint32_t> want) {
  EXPECT_TRUE(std::equal(want.begin(), want.end(), got.w))
      << std::hex << got.w[0] << ' ' << got.w[1] << ' ' << got.w[2] << ' ' << got.w[3];
}

TEST(Philox, KnownAnswers) {  // Random123, examples/kat_vectors
  expect_words(formula::philox4x32({{0, 0, 0, 0}}, 0, 0),
               {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_words(formula::philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u),
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words(formula::philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                                   0x299f31d0),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Generator, StateGoesOnAndCanBeRestored) {
  Generator g(7);
  const RandomKey first = g.next();
  EXPECT_EQ(first.seed, 7u);
  EXPECT_EQ(first.offset, 0u);
  const RandomKey state = g.state();
  const std::vector<float> a = rand({5}, {}, &g).to_vector<float>();
  EXPECT_NE(rand({5}, {}, &g).to_vector<float>(), a);
  g.set_state(state);
  EXPECT_EQ(rand({5}, {}, &g).to_vector<float>(), a);
  g.manual_seed(7);
  EXPECT_EQ(g.next().offset, 0u);
}

TEST(Generator, GlobalSeed) {
  manual_seed(3);
  const auto a = randn({4}).to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(randn({4}).to_vector<float>(), a);
}

TEST(Random, ElementsDependOnlyOnKeyAndPosition) {
  for (DType dtype : {f32, f64}) {
    Generator a(1), b(1), c(1);
    const auto long_draw = randn({9001}, {.dtype = dtype}, &a).to(f64).to_vector<double>();
    const auto short_draw = randn({3, 5}, {.dtype = dtype}, &b).to(f64).to_vector<double>();
    EXPECT_TRUE(std::equal(short_draw.begin(), short_draw.end(), long_draw.begin()));
    Tensor strided = empty({5, 3}, {.dtype = dtype}).t();
    strided.normal_(0, 1, &c);
    EXPECT_EQ(strided.to(f64).to_vector<double>(), short_draw);
  }
}

TEST(Random, NormalNumbersAreThoseOfTheirBlocks) {
  Generator generator(9), same(9);
  const RandomKey key = same.next();
  constexpr int64_t kCount = 100001;
  const std::vector<float> drawn = randn({kCount}, {}, &generator).to_vector<float>();
  int64_t other = 0;
  for (int64_t i = 0; i < kCount; i += 2) {
    const Words r = formula::random_block(key, static_cast<uint64_t>(i / 4));
    const size_t k = static_cast<size_t>(i % 4);
    const double u = (static_cast<double>(r.w[k]) + 1) * 0x1p-32;
    const double angle = 6.283185307179586477 * (r.w[k + 1] * 0x1p-32);
    const double want[2] = {std::sqrt(-2 * std::log(u)) * std::cos(angle),
                            std::sqrt(-2 * std::log(u)) * std::sin(angle)};
    for (int64_t j = 0; j < std::min<int64_t>(2, kCount - i); ++j) {
      ASSERT_NEAR(drawn[static_cast<size_t>(i + j)], want[j], 1e-6);
      other += drawn[static_cast<size_t>(i + j)] != static_cast<float>(want[j]);
    }
  }
  EXPECT_LE(other, 2);  // numbers half-way between two floats
}

TEST(Random, UniformNumbersAreThoseOfTheirBlocks) {
  Generator generator(9), same(9);
  const RandomKey key = same.next();
  const std::vector<float> drawn = rand({5003}, {}, &generator).to_vector<float>();
  for (size_t i = 0; i < drawn.size(); ++i)
    ASSERT_EQ(drawn[i], formula::unit_f32(formula::random_block(key, i / 4).w[i % 4]));
}

TEST(Random, ThreadsDoNotChangeValues) {
  std::vector<std::vector<float>> draws;
  for (int threads : {1, 3}) {
    const tests::Threads guard(threads);
    Generator g(5);
    draws.push_back(rand({50001}, {}, &g).to_vector<float>());
  }
  EXPECT_EQ(draws[0], draws[1]);
}

struct Moments {
  double mean = 0, std = 0, min = 0, max = 0;
};
Moments moments(const Tensor& x) {
  const std::vector<double> v = x.to(f64).to_vector<double>();
  Moments m{0, 0, *std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end())};
  for (double a : v) m.mean += a / static_cast<double>(v.size());
  for (double a : v) m.std += (a - m.mean) * (a - m.mean) / static_cast<double>(v.size());
  m.std = std::sqrt(m.std);
  return m;
}

TEST(Random, Distributions) {
  Generator g(11);
  for (DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f16 || dtype == bf16 ? 0.02 : 0.01;
    Tensor u = empty({60000}, {.dtype = dtype});
    Moments m = moments(u.uniform_(-2, 4, &g));
    EXPECT_NEAR(m.mean, 1, 6 * tolerance / 2);
    EXPECT_NEAR(m.std, 6 / std::sqrt(12), 6 * tolerance / 2);
    EXPECT_GE(m.min, -2);
    EXPECT_LE(m.max, 4);
    m = moments(u.normal_(3, 0.5, &g));
    EXPECT_NEAR(m.mean, 3, tolerance);
    EXPECT_NEAR(m.std, 0.5, tolerance);
    const double p = moments(bernoulli(full({60000}, 0.25, {.dtype = dtype}), &g)).mean;
    EXPECT_NEAR(p, 0.25, tolerance);
  }
}

TEST(Random, UniformExcludesTheUpperEnd) {
  Generator g(2);
  Tensor u = empty({300000});
  u.uniform_(1, 1 + 0x1p-22, &g);  // few floats in the range: rounding would reach its end
  EXPECT_LT(moments(u).max, 1 + 0x1p-22);
  EXPECT_GE(moments(u).min, 1);
  EXPECT_EQ(moments(u.uniform_(2, 2, &g)).max, 2);
  for (DType dtype : {f16, bf16}) {
    Tensor small = rand({200000}, {.dtype = dtype}, &g);
    EXPECT_LT(moments(small).max, 1);
    EXPECT_GT(moments(small).max, 0.99);
    EXPECT_LT(moments(small.uniform_(-1, 0, &g)).max, 0);
    EXPECT_LT(moments(small.uniform_(-2, -1, &g)).max, -1);
    EXPECT_GE(moments(small).min, -2);
  }
}

TEST(Random, Randint) {
  Generator g(4);
  const auto v = randint(-3, 4, {5000}, {.dtype = i64}, &g).to_vector<int64_t>();
  EXPECT_EQ(std::set<int64_t>(v.begin(), v.end()).size(), 7u);
  EXPECT_EQ(*std::min_element(v.begin(), v.end()), -3);
  EXPECT_EQ(*std::max_element(v.begin(), v.end()), 3);
  EXPECT_EQ(randint(5, 6, {2}, {.dtype = f32}, &g).to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_NO_THROW(randint(INT64_MIN, INT64_MAX, {3}, {.dtype = i64}, &g));
  EXPECT_THROW(randint(2, 2, {3}), ValueError);
  EXPECT_THROW(randint(0, 1000, {8}, {.dtype = u8}), ValueError);
  EXPECT_THROW(randint(-1, 3, {8}, {.dtype = u8}), ValueError);
  EXPECT_THROW(randint(0, 3, {8}, {.dtype = bool_}), ValueError);
  EXPECT_NO_THROW(randint(0, 256, {8}, {.dtype = u8}));
  EXPECT_NO_THROW(randint(0, 2, {8}, {.dtype = bool_}));
}

TEST(Random, Randperm) {
  Generator g(4);
  auto v = randperm(1000, {.dtype = i64}, &g).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(v.begin(), v.end()));
  std::sort(v.begin(), v.end());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(v[static_cast<size_t>(i)], i);
  EXPECT_EQ(randperm(0).numel(), 0);
  EXPECT_EQ(randperm(1, {.dtype = i32}).to_vector<int32_t>(), std::vector<int32_t>{0});
}

TEST(Random, BadArguments) {
  Tensor x = empty({2}), whole = empty({2}, {.dtype = i64});
  EXPECT_THROW(x.uniform_(1, 0), ValueError);
  EXPECT_THROW(x.normal_(0, -1), ValueError);
  EXPECT_THROW(whole.uniform_(), DTypeError);
  EXPECT_THROW(bernoulli(full({2}, 1.5)), ValueError);
  EXPECT_THROW(randperm(-1), ValueError);
}

}  // namespace
}  // namespace brim
