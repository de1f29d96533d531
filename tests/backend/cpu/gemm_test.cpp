// Matrix products on the CPU, gemm and each kernel behind it, against sums in long double: sizes
// around the tiles, every combination of transposes, other strides, and the same bits for any
// number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/gemm/gemm_kernels.h"
#include "threads.h"

namespace brim::cpu {
namespace {

using tests::Threads;

struct GemmSize {
  int64_t m, n, k;
};

/// Numbers in [-1, 1) that depend on the index only.
template <class T>
std::vector<T> random_numbers(int64_t count, uint32_t seed) {
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<T>(static_cast<double>(seed >> 8) / (1 << 23) - 1);
  }
  return v;
}

template <class T>
using Kernel = void(int64_t, int64_t, int64_t, Matrix<T>, Matrix<T>, bool, T*, int64_t);

/// What `kernel` makes of C, whose rows are n + 3 apart; all that it must not touch holds -7.
template <class T>
std::vector<T> run(Kernel<T>* kernel, const GemmSize& s, Matrix<T> a, Matrix<T> b,
                   bool accumulate) {
  const int64_t ldc = s.n + 3;
  std::vector<T> c(static_cast<size_t>((s.m + 1) * ldc), T(-7));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j)
      c[i * ldc + j] = accumulate ? static_cast<T>(i - 2 * j) : std::numeric_limits<T>::quiet_NaN();
  kernel(s.m, s.n, s.k, a, b, accumulate, c.data(), ldc);
  return c;
}

template <class T>
void expect_product(const std::vector<T>& c, const GemmSize& s, Matrix<T> a, Matrix<T> b,
                    bool accumulate, const std::string& what) {
  const int64_t ldc = s.n + 3;
  // k roundings of products and sums, and one of what C held.
  const double bound = std::numeric_limits<T>::epsilon() / 2 * static_cast<double>(s.k + 2);
  int64_t wrong = 0;
  for (int64_t i = 0; i <= s.m; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      const double actual = c[i * ldc + j];
      if (i == s.m || j >= s.n) {
        wrong += actual != -7;
        continue;
      }
      long double sum = accumulate ? i - 2 * j : 0, size = std::fabs(sum);
      for (int64_t p = 0; p < s.k; ++p) {
        const auto x =
            static_cast<long double>(a.data[i * a.row + p * a.col]) * b.data[p * b.row + j * b.col];
        sum += x;
        size += std::fabs(x);
      }
      wrong += !(std::fabs(actual - sum) <= bound * size);
    }
  EXPECT_EQ(wrong, 0) << what << ": " << s.m << " x " << s.n << " x " << s.k
                      << (accumulate ? ", accumulated" : "");
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

/// `kernel` in one thread and in three, whose results must have the same bits.
template <class T>
void check_kernel(Kernel<T>* kernel, const GemmSize& s, Matrix<T> a, Matrix<T> b,
                  const std::string& what) {
  for (const bool accumulate : {false, true}) {
    std::vector<T> alone, together;
    {
      const Threads threads(1);
      alone = run(kernel, s, a, b, accumulate);
    }
    {
      const Threads threads(3);
      together = run(kernel, s, a, b, accumulate);
    }
    expect_product(alone, s, a, b, accumulate, what);
    EXPECT_TRUE(same_bits(alone, together))
        << what << ": " << s.m << " x " << s.n << " x " << s.k << " depends on the threads";
  }
}

/// gemm and all kernels that take the operands, for all four combinations of transposes.
template <class T>
void check_forms(const GemmSize& s) {
  const auto a = random_numbers<T>(s.m * s.k + 1, 1), b = random_numbers<T>(s.k * s.n + 1, 2);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto of = [](const std::vector<T>& v, bool t, int64_t rows, int64_t columns) {
        return t ? Matrix<T>{v.data(), 1, std::max<int64_t>(rows, 1)}
                 : Matrix<T>{v.data(), std::max<int64_t>(columns, 1), 1};
      };
      const Matrix<T> ma = of(a, ta, s.m, s.k), mb = of(b, tb, s.k, s.n);
      const std::string form = std::string(ta ? "T" : "N") + (tb ? "T" : "N");
      check_kernel(&gemm<T>, s, ma, mb, "gemm " + form);
      check_kernel(&gemm_packed<T>, s, ma, mb, "packed " + form);
      if (!tb) check_kernel(&gemm_broadcast<T>, s, ma, mb, "broadcast " + form);
      if (!ta && tb) check_kernel(&gemm_dot<T>, s, ma, mb, "dot " + form);
    }
}

template <class T>
class Gemm : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, SizesAroundTheTiles) {
  for (int64_t i = 1; i <= 130; ++i)  // every size up to 130 on each axis
    check_forms<TypeParam>({i, i * 37 % 130 + 1, i * 53 % 130 + 1});
  for (const int64_t m : {1, 5, 6, 7, 13})
    for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 130})
      for (const int64_t k : {1, 3, 4, 5, 16, 19}) check_forms<TypeParam>({m, n, k});
}

TYPED_TEST(Gemm, SeveralStretchesAndBlocks) {
  for (const GemmSize& s :
       {GemmSize{50, 70, 900}, GemmSize{7, 300, 385}, GemmSize{1030, 20, 390},
        GemmSize{260, 260, 130}, GemmSize{1, 3000, 1000}, GemmSize{3, 2000, 1100},
        GemmSize{1100, 9, 400}, GemmSize{2100, 260, 64}})
    check_forms<TypeParam>(s);
}

/// Results that follow each other, as no other test has them.
TYPED_TEST(Gemm, TransposedTimesDenseVector) {
  using T = TypeParam;
  for (const int64_t m : {1, 2, 7, 24, 33, 700})
    for (const int64_t k : {0, 1, 5, 300, 1100}) {
      const auto a = random_numbers<T>(k * (m + 2) + 1, 5), b = random_numbers<T>(2 * k + 1, 6);
      for (const bool accumulate : {false, true}) {
        std::vector<std::vector<T>> results;
        for (const int threads : {1, 3}) {
          const Threads guard(threads);
          std::vector<T> c(static_cast<size_t>(m) + 1, T(-7));
          gemm<T>(m, 1, k, {a.data(), 1, m + 2}, {b.data(), 2, 1}, accumulate, c.data(), 1);
          results.push_back(c);
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0].back(), T(-7));
        for (int64_t i = 0; i < m; ++i) {
          long double want = accumulate ? -7 : 0, size = 7;
          for (int64_t p = 0; p < k; ++p) {
            const long double term = static_cast<long double>(a[p * (m + 2) + i]) * b[2 * p];
            want += term;
            size += std::abs(term);
          }
          const long double error = std::numeric_limits<T>::epsilon() * (k + 2) * size;
          ASSERT_NEAR(results[0][i], static_cast<double>(want), static_cast<double>(error));
        }
      }
    }
}

TYPED_TEST(Gemm, WithoutSum) {
  for (const GemmSize& s : {GemmSize{5, 70, 0}, GemmSize{130, 20, 0}, GemmSize{1, 1, 0}})
    check_forms<TypeParam>(s);
  const TypeParam none{};
  for (const GemmSize& s : {GemmSize{0, 5, 3}, GemmSize{5, 0, 3}, GemmSize{0, 0, 0}})
    run(&gemm<TypeParam>, s, Matrix<TypeParam>{&none, 0, 0}, Matrix<TypeParam>{&none, 0, 0}, false);
}

TYPED_TEST(Gemm, Strides) {
  using T = TypeParam;
  const auto a = random_numbers<T>(1 << 17, 3), b = random_numbers<T>(1 << 17, 4);
  for (const GemmSize& s :
       {GemmSize{5, 7, 9}, GemmSize{70, 90, 40}, GemmSize{30, 200, 130}, GemmSize{200, 33, 70}}) {
    // Steps in both axes, rows that lie apart, backwards, and views that repeat a row, a column or
    // one number.
    const Matrix<T> of_a[] = {{a.data(), 3 * s.k, 3},
                              {a.data(), s.k + 5, 1},
                              {a.data(), 1, s.m + 9},
                              {a.data(), 0, 1},
                              {a.data(), 1, 0},
                              {a.data(), 0, 0},
                              {a.data() + s.k - 1, s.k, -1}};
    const Matrix<T> of_b[] = {{b.data(), 3 * s.n, 3},
                              {b.data(), s.n + 5, 1},
                              {b.data(), 1, s.k + 9},
                              {b.data(), 0, 1},
                              {b.data(), 1, 0},
                              {b.data(), 0, 0},
                              {b.data() + s.n - 1, s.n, -1}};
    for (const Matrix<T>& x : of_a)
      for (const Matrix<T>& y : of_b)
        check_kernel(&gemm<T>, s, x, y,
                     "strides " + std::to_string(x.row) + ", " + std::to_string(x.col) + " and " +
                         std::to_string(y.row) + ", " + std::to_string(y.col));
  }
}

TEST(GemmNan, StaysInItsRowsAndColumns) {
  const GemmSize s{70, 90, 100};
  auto a = random_numbers<float>(s.m * s.k, 5);
  const auto b = random_numbers<float>(s.k * s.n, 6);
  a[33 * s.k + 50] = std::numeric_limits<float>::quiet_NaN();
  for (const bool tb : {false, true}) {
    const Matrix<float> mb = tb ? Matrix<float>{b.data(), 1, s.k} : Matrix<float>{b.data(), s.n, 1};
    for (const auto& kernel : {&gemm<float>, &gemm_packed<float>}) {
      const auto c = run<float>(kernel, s, {a.data(), s.k, 1}, mb, false);
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j)
          ASSERT_EQ(std::isnan(c[i * (s.n + 3) + j]), i == 33) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace brim::cpu
