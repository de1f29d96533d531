// Products of bf16 by instructions made for them, against sums in double: sizes around the tiles
// and the blocks of k, every combination of transposes, other strides, what follows the sums, and
// the same bits for any number of threads.
#include "backend/cpu/gemm/gemm_bf16.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "threads.h"

namespace brim::cpu {
namespace {

using Numbers = std::vector<BFloat16>;

struct Size {
  int64_t m, n, k;

  std::string str() const {
    return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  }
};

/// Numbers in [-1, 1) that depend on the index only.
Numbers random_numbers(int64_t count, uint32_t seed) {
  Numbers v(static_cast<size_t>(count));
  for (BFloat16& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = BFloat16(static_cast<float>(seed >> 8) / (1 << 23) - 1);
  }
  return v;
}

/// C, whose rows are n + 3 apart; all that must not be touched holds -7.
Numbers run(const Size& s, Matrix<BFloat16> a, Matrix<BFloat16> b, const Bf16Finish& finish = {}) {
  const int64_t ldc = s.n + 3;
  Numbers c(static_cast<size_t>((s.m + 1) * ldc), BFloat16(-7));
  std::vector<float> sums(static_cast<size_t>(bf16_sums(s.m, s.n, s.k)),
                          std::numeric_limits<float>::quiet_NaN());
  gemm_bf16(s.m, s.n, s.k, a, b, c.data(), ldc, sums.data(), finish);
  return c;
}

void expect_product(const Numbers& c, const Size& s, Matrix<BFloat16> a, Matrix<BFloat16> b,
                    const std::string& what, const Bf16Finish& finish = {}) {
  const int64_t ldc = s.n + 3;
  // Each product and each sum is rounded to f32 once, the result to bf16.
  const double bound = std::numeric_limits<float>::epsilon() * static_cast<double>(s.k + 2);
  int64_t wrong = 0;
  for (int64_t i = 0; i <= s.m; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      const double actual = static_cast<float>(c[i * ldc + j]);
      if (i == s.m || j >= s.n) {
        wrong += actual != -7;
        continue;
      }
      double sum = finish.bias ? finish.bias[j] : 0, size = std::fabs(sum);
      for (int64_t p = 0; p < s.k; ++p) {
        const double x = static_cast<double>(static_cast<float>(a.data[i * a.row + p * a.col])) *
                         static_cast<double>(static_cast<float>(b.data[p * b.row + j * b.col]));
        sum += x;
        size += std::fabs(x);
      }
      if (finish.relu) sum = std::max(sum, 0.0);
      const double limit = bound * size + 0x1p-8 * std::fabs(sum);
      wrong += !(std::fabs(actual - sum) <= limit);
    }
  EXPECT_EQ(wrong, 0) << what << ": " << s.str();
}

bool same_bits(const Numbers& x, const Numbers& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 2) == 0;
}

/// In one thread and in three, whose results must have the same bits.
void check(const Size& s, Matrix<BFloat16> a, Matrix<BFloat16> b, const std::string& what) {
  Numbers alone, together;
  {
    const tests::Threads threads(1);
    alone = run(s, a, b);
  }
  {
    const tests::Threads threads(3);
    together = run(s, a, b);
  }
  expect_product(alone, s, a, b, what);
  EXPECT_TRUE(same_bits(alone, together)) << what << ": " << s.str() << " depends on the threads";
}

/// All four combinations of transposes.
void check_forms(const Size& s) {
  const auto a = random_numbers(s.m * s.k + 1, 1), b = random_numbers(s.k * s.n + 1, 2);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto of = [](const Numbers& v, bool t, int64_t rows, int64_t columns) {
        return t ? Matrix<BFloat16>{v.data(), 1, std::max<int64_t>(rows, 1)}
                 : Matrix<BFloat16>{v.data(), std::max<int64_t>(columns, 1), 1};
      };
      check(s, of(a, ta, s.m, s.k), of(b, tb, s.k, s.n),
            std::string(ta ? "T" : "N") + (tb ? "T" : "N"));
    }
}

class GemmBf16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!multiplies_bf16()) GTEST_SKIP() << "this CPU, or BRIM_CPU_ISA, has no products of bf16";
  }
};

TEST_F(GemmBf16, SizesAroundTheTiles) {
  for (int64_t i = 1; i <= 130; ++i)  // every size up to 130 on each axis
    check_forms({i, i * 37 % 130 + 1, i * 53 % 130 + 1});
  for (const int64_t m : {1, 5, 6, 7, 13})
    for (const int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 130})
      for (const int64_t k : {1, 2, 3, 8, 9, 31, 32, 33, 300}) check_forms({m, n, k});
}

TEST_F(GemmBf16, SeveralBlocks) {
  for (const Size& s : {Size{50, 70, 2900}, Size{7, 300, 1025}, Size{1030, 20, 1390},
                        Size{260, 260, 130}, Size{1, 3000, 1100}, Size{3, 2000, 1100},
                        Size{1100, 9, 400}, Size{2100, 260, 64}, Size{33, 2, 5000}})
    check_forms(s);
}

TEST_F(GemmBf16, WithoutSum) {
  for (const Size& s : {Size{5, 70, 0}, Size{130, 20, 0}, Size{1, 1, 0}}) check_forms(s);
  const BFloat16 none;
  for (const Size& s : {Size{0, 5, 3}, Size{5, 0, 3}, Size{0, 0, 0}})
    run(s, {&none, 0, 0}, {&none, 0, 0});
}

TEST_F(GemmBf16, Strides) {
  const auto a = random_numbers(1 << 17, 3), b = random_numbers(1 << 17, 4);
  for (const Size& s : {Size{5, 7, 9}, Size{70, 90, 41}, Size{30, 200, 130}, Size{200, 33, 70}}) {
    // Steps in both axes, rows that lie apart, backwards, and views that repeat a row, a column or
    // one number.
    const auto views = [](const Numbers& x, int64_t rows, int64_t columns) {
      return std::vector<Matrix<BFloat16>>{{x.data(), 3 * columns, 3},
                                           {x.data(), columns + 5, 1},
                                           {x.data(), 1, rows + 9},
                                           {x.data(), 0, 1},
                                           {x.data(), 1, 0},
                                           {x.data(), 0, 0},
                                           {x.data() + columns - 1, columns, -1}};
    };
    for (const auto& x : views(a, s.m, s.k))
      for (const auto& y : views(b, s.k, s.n))
        check(s, x, y,
              "strides " + std::to_string(x.row) + ", " + std::to_string(x.col) + " and " +
                  std::to_string(y.row) + ", " + std::to_string(y.col));
  }
}

TEST_F(GemmBf16, BiasAndRelu) {
  for (const Size& s : {Size{1, 1, 300}, Size{40, 1, 300}, Size{4, 70, 300}, Size{70, 90, 40},
                        Size{70, 90, 1100}}) {
    const auto a = random_numbers(s.m * s.k, 5), b = random_numbers(s.k * s.n, 6);
    std::vector<float> bias(static_cast<size_t>(s.n));
    for (int64_t j = 0; j < s.n; ++j) bias[j] = std::sin(static_cast<float>(j));
    const Matrix<BFloat16> ma{a.data(), s.k, 1}, mb{b.data(), 1, s.k};
    for (const bool relu : {false, true}) {
      const Bf16Finish finish{.bias = bias.data(), .relu = relu};
      expect_product(run(s, ma, mb, finish), s, ma, mb, relu ? "bias, relu" : "bias", finish);
    }
  }
}

TEST_F(GemmBf16, BiasOfRowsIsThatOfTransposedColumns) {
  for (const Size& s : {Size{70, 90, 40}, Size{20, 130, 1100}, Size{40, 1, 300}}) {
    const auto a = random_numbers(s.m * s.k, 5), b = random_numbers(s.k * s.n, 6);
    std::vector<float> bias(static_cast<size_t>(s.m));
    for (int64_t i = 0; i < s.m; ++i) bias[i] = std::sin(static_cast<float>(i));
    const Matrix<BFloat16> ma{a.data(), s.k, 1}, mb{b.data(), s.n, 1};
    const auto c = run(s, ma, mb, {.row_bias = bias.data()});
    for (int64_t i = 0; i < s.m; ++i) {
      std::vector<float> same(static_cast<size_t>(s.n), bias[i]);
      const Numbers row(c.begin() + i * (s.n + 3), c.begin() + (i + 1) * (s.n + 3));
      Numbers two(row);
      two.resize(2 * row.size(), BFloat16(-7));
      expect_product(two, {1, s.n, s.k}, {a.data() + i * s.k, s.k, 1}, mb, "row",
                     {.bias = same.data()});
    }
  }
}

TEST_F(GemmBf16, SeveralCallsAddUp) {
  for (const Size& s : {Size{70, 90, 2400}, Size{3, 100, 600}, Size{70, 90, 60}, Size{50, 1, 90}}) {
    const auto a = random_numbers(s.m * s.k, 5), b = random_numbers(s.k * s.n, 6);
    std::vector<float> sums(static_cast<size_t>(s.m * s.n));
    const int64_t ldc = s.n + 3, third = s.k / 3;
    for (const bool dense : {false, true}) {  // B's columns
      const int64_t row = dense ? 1 : s.n, col = dense ? s.k : 1;
      Numbers c(static_cast<size_t>((s.m + 1) * ldc), BFloat16(-7));
      for (int64_t p = 0; p < s.k; p += third) {
        gemm_bf16(s.m, s.n, third, {a.data() + p, s.k, 1}, {b.data() + p * row, row, col}, c.data(),
                  ldc, sums.data(), {.begun = p > 0, .more = p + third < s.k});
        if (p + third < s.k) {
          EXPECT_EQ(static_cast<float>(c[0]), -7);
        }
      }
      expect_product(c, s, {a.data(), s.k, 1}, {b.data(), row, col}, "three calls");
    }
  }
}

TEST_F(GemmBf16, OneDenseColumn) {
  for (const int64_t m : {1, 2, 7, 33, 700})
    for (const int64_t k : {0, 1, 5, 300, 1100})
      for (const bool transposed : {false, true}) {
        const auto a = random_numbers(k * m + 1, 7), b = random_numbers(k + 1, 8);
        const Matrix<BFloat16> ma{a.data(), transposed ? 1 : k, transposed ? m : 1};
        const Matrix<BFloat16> mb{b.data(), 1, 1};
        std::vector<float> sums(static_cast<size_t>(bf16_sums(m, 1, k)));
        const float bias = 0.5f;
        for (const float* add : {static_cast<const float*>(nullptr), &bias}) {
          Numbers c(static_cast<size_t>(m) + 1, BFloat16(-7));
          gemm_bf16(m, 1, k, ma, mb, c.data(), 1, sums.data(), {.bias = add});
          EXPECT_EQ(static_cast<float>(c.back()), -7);
          Numbers spread(static_cast<size_t>(4 * (m + 1)), BFloat16(-7));
          for (int64_t i = 0; i < m; ++i) spread[4 * i] = c[i];
          expect_product(spread, {m, 1, k}, ma, mb, "column", {.bias = add});
        }
      }
}

/// A copy of numbers behind which no memory may be read.
class AtEndOfMemory {
 public:
  explicit AtEndOfMemory(const Numbers& x) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = x.size() * sizeof(BFloat16), room = (bytes + page - 1) / page * page;
    size_ = room + page;
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    char* const end = static_cast<char*>(memory_) + room;
    mprotect(end, page, PROT_NONE);
    data_ = reinterpret_cast<BFloat16*>(end - bytes);
    std::copy(x.begin(), x.end(), data_);
  }
  ~AtEndOfMemory() { munmap(memory_, size_); }
  AtEndOfMemory(const AtEndOfMemory&) = delete;
  AtEndOfMemory& operator=(const AtEndOfMemory&) = delete;
  BFloat16* data() const { return data_; }

 private:
  void* memory_;
  size_t size_;
  BFloat16* data_;
};

TEST_F(GemmBf16, TouchesNothingBehindItsOperands) {
  for (const Size& s : {Size{1, 1, 1}, Size{1, 33, 7}, Size{7, 65, 9}, Size{13, 70, 33},
                        Size{5, 90, 300}, Size{90, 5, 301}, Size{20, 17, 1025}, Size{8, 64, 64}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const AtEndOfMemory a(random_numbers(s.m * s.k, 1)), b(random_numbers(s.k * s.n, 2));
        const AtEndOfMemory c(Numbers(static_cast<size_t>(s.m * s.n)));
        std::vector<float> sums(static_cast<size_t>(bf16_sums(s.m, s.n, s.k)));
        const Matrix<BFloat16> ma{a.data(), ta ? 1 : s.k, ta ? s.m : 1};
        const Matrix<BFloat16> mb{b.data(), tb ? 1 : s.n, tb ? s.k : 1};
        gemm_bf16(s.m, s.n, s.k, ma, mb, c.data(), s.n, sums.data());
        Numbers spread(static_cast<size_t>((s.m + 1) * (s.n + 3)), BFloat16(-7));
        for (int64_t i = 0; i < s.m; ++i)
          std::copy_n(c.data() + i * s.n, s.n, spread.begin() + i * (s.n + 3));
        expect_product(spread, s, ma, mb, "at the end of memory");
      }
}

TEST_F(GemmBf16, NotANumberStaysInItsRow) {
  const Size s{70, 90, 101};
  auto a = random_numbers(s.m * s.k, 5);
  const auto b = random_numbers(s.k * s.n, 6);
  a[33 * s.k + 100] = BFloat16(std::numeric_limits<float>::quiet_NaN());
  for (const bool relu : {false, true}) {
    const auto c = run(s, {a.data(), s.k, 1}, {b.data(), s.n, 1}, {.relu = relu});
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        ASSERT_EQ(std::isnan(static_cast<float>(c[i * (s.n + 3) + j])), i == 33) << i << ", " << j;
  }
}

TEST_F(GemmBf16, TakesDenormalsForZero) {
  const BFloat16 tiny(1e-39f), one(1.0f);
  const auto c = run({1, 1, 1}, {&tiny, 1, 1}, {&one, 1, 1});
  EXPECT_EQ(static_cast<float>(c[0]), 0);
}

}  // namespace
}  // namespace brim::cpu
