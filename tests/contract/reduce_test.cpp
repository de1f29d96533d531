// Contract cases of reductions, and their edges: empty axes, integers, NaN, thread counts.
#include <brim/ops/reduce.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

#include "contract/contract.h"
#include "contract/harness.h"
#include "threads.h"

namespace brim::contract {
namespace {

using Axes = std::vector<int>;
using Fold = std::function<double(const std::vector<double>&)>;

/// Applies `fold` to the elements of each result.
Function folded(Axes axes, bool keepdim, Fold fold, DType dtype = f64) {
  return [=](Tensor x) {
    std::vector<bool> reduced(static_cast<size_t>(x.rank()), axes.empty());
    for (int a : axes) reduced[static_cast<size_t>(a < 0 ? a + x.rank() : a)] = true;
    Shape kept = x.shape(), dropped;
    for (int i = 0; i < x.rank(); ++i) {
      if (reduced[static_cast<size_t>(i)])
        kept[i] = 1;
      else
        dropped.push_back(kept[i]);
    }
    const Strides to = contiguous_strides(kept);
    std::vector<std::vector<double>> groups(static_cast<size_t>(kept.numel()));
    const std::vector<double> v = values(x);
    for (int64_t i = 0; i < x.numel(); ++i) {
      int64_t rest = i, at = 0;
      for (int d = x.rank() - 1; d >= 0; --d) {
        if (kept[d] != 1) at += rest % x.shape()[d] * to[d];
        rest /= x.shape()[d];
      }
      groups[static_cast<size_t>(at)].push_back(v[static_cast<size_t>(i)]);
    }
    std::vector<double> y;
    for (const auto& g : groups) y.push_back(fold(g));
    return array(y, keepdim ? kept : dropped, dtype);
  };
}

double average(const std::vector<double>& v) { return total(v) / static_cast<double>(v.size()); }
double product(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>());
}
double smallest(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
double length(const std::vector<double>& v) {
  double s = 0;
  for (double a : v) s += a * a;
  return std::sqrt(s);
}
double log_sum_exp(const std::vector<double>& v) {
  double s = 0;
  for (double a : v) s += std::exp(a);
  return std::log(s);
}
Fold variance(double correction) {
  return [=](const std::vector<double>& v) {
    const double m = average(v);
    double s = 0;
    for (double a : v) s += (a - m) * (a - m);
    return s / (static_cast<double>(v.size()) - correction);
  };
}

CONTRACT(sum_all) {
  return {.op = [](Tensor x) { return sum(x); },
          .inputs = {{{{}}}, {{{1}}}, {{{37}}}, {{{3, 5, 7}}}, {{{0}}}, {{{2, 0, 3}}}},
          .reference = folded({}, false, total)};
}
CONTRACT(sum_rows) {
  return {.op = [](Tensor x) { return sum(x, {-1}); },
          .inputs = {{{{5}}}, {{{4, 67}}}, {{{2, 3, 5}}}, {{{3, 0}}}, {{{0, 3}}}},
          .reference = folded({-1}, false, total)};
}
CONTRACT(sum_columns) {
  return {.op = [](Tensor x) { return sum(x, {0}, true); },
          .inputs = {{{{4, 13}}}, {{{33, 3}}}, {{{2, 3, 5}}}, {{{0, 3}}}},
          .reference = folded({0}, true, total)};
}
CONTRACT(sum_channels) {  // the gradient of a convolution's bias
  return {.op =
              [](Tensor x) {
                return sum(x, {0, 2, 3});
              },
          .inputs = {{{{4, 3, 5, 7}}}, {{{2, 6, 1, 3}}}, {{{0, 2, 3, 3}}}},
          .reference = folded({0, 2, 3}, false, total)};
}
CONTRACT(mean) {
  return {.op =
              [](Tensor x) {
                return mean(x, {0, -1}, true);
              },
          .inputs = {{{{4, 3, 5}}}, {{{7, 2}}}, {{{3, 0, 2}}}},
          .reference = folded({0, -1}, true, average)};
}

std::vector<std::vector<Input>> rows_shapes() {
  return {{{{4, 67}}}, {{{2, 3, 5}}}, {{{1, 1}}}, {{{0, 3}}}};
}

CONTRACT(prod) {
  return {.op = [](Tensor x) { return prod(x, {-1}); },
          .inputs = {{{{3, 5}}}, {{{2, 3, 4}}}, {{{3, 0}}}, {{{0, 3}}}},
          .reference = folded({-1}, false, product)};
}
CONTRACT(prod_all) {
  return {.op = [](Tensor x) { return prod(x); },
          .inputs = {{{{}}}, {{{2, 3}}}},
          .reference = folded({}, false, product)};
}
CONTRACT(amax) {
  return {.op = [](Tensor x) { return amax(x, {-1}); },
          .inputs = rows_shapes(),
          .reference = folded({-1}, false, largest)};
}
CONTRACT(amin_columns) {
  return {.op = [](Tensor x) { return amin(x, {0}, true); },
          .inputs = {{{{4, 67}}}, {{{2, 3, 5}}}},
          .reference = folded({0}, true, smallest)};
}
CONTRACT(max_all) {
  return {.op = [](Tensor x) { return max(x); },
          .inputs = {{{{}}}, {{{37}}}, {{{2, 3, 5}}}},
          .reference = folded({}, false, largest)};
}
CONTRACT(max_axis) {
  return {.op =
              [](Tensor x) {
                const Extremum y = max(x, 1);
                return Tensors{y.values, y.indices};
              },
          .inputs = {{{{3, 7}}}, {{{2, 5, 3}}}},
          .reference =
              [](Tensor x) {
                return Tensors{folded({1}, false, largest)({x})[0], argmax(x, 1)};
              },
          .expanded = false};
}
CONTRACT(min_axis_keep) {
  return {.op = [](Tensor x) { return min(x, 0, true).values; },
          .inputs = {{{{3, 7}}}, {{{5}}}},
          .reference = folded({0}, true, smallest),
          .expanded = false};
}
CONTRACT(argmax) {
  return {.op = [](Tensor x) { return argmax(x, -1); },
          .inputs = rows_shapes(),
          .reference = folded(
              {-1}, false,
              [](const std::vector<double>& v) {
                return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
              },
              i64),
          .gradient = false};
}
CONTRACT(argmin_all) {
  return {.op = [](Tensor x) { return argmin(x); },
          .inputs = {{{{}}}, {{{37}}}, {{{2, 3, 5}}}},
          .reference = folded(
              {}, false,
              [](const std::vector<double>& v) {
                return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
              },
              i64),
          .gradient = false};
}
CONTRACT(var) {
  return {.op =
              [](Tensor x) {
                return var(x, {0, -1});
              },
          .inputs = {{{{4, 3, 5}}}, {{{33, 2}}}},
          .reference = folded({0, -1}, false, variance(1))};
}
CONTRACT(var_population) {
  return {.op = [](Tensor x) { return var(x, {0}, 0, true); },
          .inputs = {{{{4, 13}}}, {{{1, 2}}}},
          .reference = folded({0}, true, variance(0))};
}
CONTRACT(stddev) {
  return {.op = [](Tensor x) { return stddev(x, {-1}); },
          .inputs = {{{{3, 5}}}, {{{2, 67}}}},
          .reference = folded(
              {-1}, false, [](const std::vector<double>& v) { return std::sqrt(variance(1)(v)); })};
}
CONTRACT(norm) {
  return {.op = [](Tensor x) { return norm(x); },
          .inputs = {{{{}}}, {{{37}}}, {{{4, 5}}}, {{{0}}}},
          .reference = folded({}, false, length)};
}
CONTRACT(norm_rows) {
  return {.op = [](Tensor x) { return norm(x, 2, {-1}, true); },
          .inputs = rows_shapes(),
          .reference = folded({-1}, true, length)};
}
CONTRACT(norm_three) {
  return {.op = [](Tensor x) { return norm(x, 3, {0}); },
          .inputs = {{{{4, 3}}}},
          .reference = folded({0}, false, [](const std::vector<double>& v) {
            double s = 0;
            for (double a : v) s += std::pow(std::abs(a), 3);
            return std::cbrt(s);
          })};
}
CONTRACT(logsumexp) {
  return {.op = [](Tensor x) { return logsumexp(x, {-1}); },
          .inputs = rows_shapes(),
          .reference = folded({-1}, false, log_sum_exp)};
}
CONTRACT(logsumexp_axes) {
  return {.op =
              [](Tensor x) {
                return logsumexp(x, {0, 2}, true);
              },
          .inputs = {{{{3, 4, 5}}}},
          .reference = folded({0, 2}, true, log_sum_exp)};
}
CONTRACT(any) {
  return {.op = [](Tensor x) { return any(x, {-1}); },
          .inputs = {{{.shape = {5, 3}, .dtype = bool_}}, {{.shape = {3, 2}, .dtype = i32}}},
          .reference = folded(
              {-1}, false,
              [](const std::vector<double>& v) {
                return std::any_of(v.begin(), v.end(), [](double a) { return a != 0; });
              },
              bool_),
          .gradient = false};
}
CONTRACT(all) {
  return {.op = [](Tensor x) { return all(x); },
          .inputs = {{{.shape = {5, 3}, .dtype = bool_}}, {{{0}}}, {{{4}}}},
          .reference = folded(
              {}, false,
              [](const std::vector<double>& v) {
                return std::all_of(v.begin(), v.end(), [](double a) { return a != 0; });
              },
              bool_),
          .gradient = false};
}
CONTRACT(cumsum) {
  return {.op = [](Tensor x) { return cumsum(x, 1); },
          .inputs = {{{{3, 5}}}, {{{2, 4, 3}}}, {{{2, 0}}}},
          .reference =
              [](Tensor x) {
                std::vector<double> v = values(x);
                const int64_t n = x.shape()[1], inner = x.rank() == 3 ? x.shape()[2] : 1;
                for (size_t i = 0; i < v.size(); ++i)
                  if (static_cast<int64_t>(i) / inner % n != 0)
                    v[i] += v[i - static_cast<size_t>(inner)];
                return array(v, x.shape());
              }};
}

TEST(Reduce, ProductsWithZeros) {
  Tensor x = Tensor::from<double>({2, 0, 3, 2, 0, 0, 2, 5, 3}, {3, 3}).set_requires_grad();
  prod(x, {1}).backward(ones({3}, {.dtype = f64}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 6, 0, 0, 0, 0, 15, 6, 10}));
}

TEST(Reduce, SecondDerivativeOfLongProductsWithAZero) {
  Tensor x = ones({300}, {.dtype = f64});
  x.slice(0, 7, 8).fill_(0);
  x.set_requires_grad();
  const Tensor y = prod(x);
  const Tensor g = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  sum(g).backward();
  // Only pairs that hold the zero leave a product of ones.
  std::vector<double> expected(300, 1);
  expected[7] = 299;
  EXPECT_EQ(x.grad().to_vector<double>(), expected);
}

TEST(Reduce, OverwrittenIndicesOfMaxAreAnError) {
  Tensor x = Tensor::from<float>({1, 2, 3}, {1, 3}).set_requires_grad();
  Extremum m = max(x, 1);
  m.indices.fill_(0);
  EXPECT_THROW(sum(m.values).backward(), AutogradError);
}

TEST(Reduce, NormsOfZeroHaveACleanGradient) {
  for (const double p : {0.5, 1.5, 2.0, 3.0}) {
    const AnomalyMode guard;
    Tensor x = Tensor::from<double>({0, 0, 3, 0}, {2, 2}).set_requires_grad();
    norm(x, p, {1}).backward(ones({2}, {.dtype = f64}));
    const std::vector<double> g = x.grad().to_vector<double>();
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(g[i], i == 2, 1e-12) << p;
  }
}

TEST(Reduce, IntegersWrapAround) {
  const Tensor x = Tensor::from<int64_t>({INT64_MAX, 1}, {2});
  EXPECT_EQ(sum(x).item<int64_t>(), INT64_MIN);
  EXPECT_EQ(prod(Tensor::from<int64_t>({INT64_MAX, 2}, {2})).item<int64_t>(), -2);
  EXPECT_EQ(cumsum(x, 0).to_vector<int64_t>(), (std::vector<int64_t>{INT64_MAX, INT64_MIN}));
  EXPECT_EQ(add(x, 1).to_vector<int64_t>(), (std::vector<int64_t>{INT64_MIN, 2}));
  EXPECT_EQ((x + x).to_vector<int64_t>(), (std::vector<int64_t>{-2, 2}));
  EXPECT_EQ((x * x).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(square(x).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(neg(Tensor::from<int32_t>({INT32_MIN}, {1})).item<int64_t>(), INT32_MIN);
  EXPECT_EQ(abs(Tensor::from<int8_t>({-128, -3}, {2})).to_vector<int8_t>(),
            (std::vector<int8_t>{-128, 3}));
}

TEST(Reduce, EqualExtremesShareTheGradient) {
  Tensor x = Tensor::from<double>({3, 1, 3, 2}, {4}).set_requires_grad();
  max(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0.5, 0, 0.5, 0}));
  x.zero_grad();
  const Extremum y = max(x, 0);
  EXPECT_EQ(y.indices.item<int64_t>(), 0);
  y.values.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 0, 0, 0}));
}

TEST(Reduce, ExtremesOfNanIntegersAndNothing) {
  const Tensor x = Tensor::from<float>({1, NAN, 3, NAN}, {4});
  EXPECT_TRUE(std::isnan(max(x).item()));
  EXPECT_TRUE(std::isnan(min(x).item()));
  EXPECT_EQ(argmax(x).item<int64_t>(), 1);
  for (const int64_t at : {0, 5, 70, 99}) {  // in the vectors and in the tail
    Tensor row = randn({2, 100});
    row.slice(1, at, at + 1).fill_(NAN);
    EXPECT_TRUE(all(isnan(max(row, 1).values)).item<bool>()) << at;
    EXPECT_TRUE(all(isnan(amax(row, {1}))).item<bool>()) << at;
    EXPECT_TRUE(all(isnan(amin(row.t(), {0}))).item<bool>()) << at;
    EXPECT_EQ(sum(isnan(amax(row, {0}))).item<int64_t>(), 1) << at;
    EXPECT_TRUE(std::isnan(mean(row).item())) << at;
  }
  EXPECT_EQ(min(Tensor::from<int64_t>({5, -7, 2}, {3})).item<int64_t>(), -7);
  EXPECT_EQ(argmin(Tensor::from<uint8_t>({5, 2, 2}, {3})).item<int64_t>(), 1);
  EXPECT_THROW(max(zeros({0})), ValueError);
  EXPECT_THROW(max(zeros({2, 0}), 1), ValueError);
  EXPECT_THROW(argmax(zeros({0})), ValueError);
  EXPECT_EQ(amax(zeros({0, 3}), {1}).shape(), Shape({0}));
}

TEST(Reduce, EdgesAsInPyTorch) {
  const float inf = INFINITY;
  EXPECT_TRUE(std::isnan(var(ones({1})).item()));
  EXPECT_EQ(var(ones({1}), {}, 0).item(), 0);
  EXPECT_EQ(norm(zeros({0})).item(), 0);
  EXPECT_EQ(norm(Tensor::from<float>({3, -7}, {2}), inf).item(), 7);
  EXPECT_EQ(norm(Tensor::from<float>({3, -7}, {2}), 1).item(), 10);
  EXPECT_EQ(prod(zeros({0})).item(), 1);
  EXPECT_EQ(logsumexp(full({2}, -inf)).item(), -inf);
  EXPECT_EQ(logsumexp(Tensor::from<float>({1000, 1000}, {2})).item(), 1000 + std::log(2.0f));
  EXPECT_FALSE(any(zeros({0})).item<bool>());
  Tensor x = zeros({3}).set_requires_grad();
  norm(x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  x.zero_grad();
  stddev(x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(cumsum(ones({3}, {.dtype = bool_}), 0).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 2, 3}));
}

TEST(Reduce, IntegersAndBoolSumToI64) {
  const Tensor x = Tensor::from<uint8_t>({200, 100, 255, 1}, {2, 2});
  EXPECT_EQ(sum(x, {1}).to_vector<int64_t>(), (std::vector<int64_t>{300, 256}));
  EXPECT_EQ(sum(Tensor::from<int32_t>({-3, 5}, {2})).item<int64_t>(), 2);
  EXPECT_EQ(sum(ones({3, 4}, {.dtype = bool_})).item<int64_t>(), 12);
  EXPECT_THROW(mean(x), DTypeError);
}

/// A reduction along the last axis, and what it gives for one row.
struct RowCase {
  const char* name;
  std::function<Tensor(const Tensor&)> op;
  Fold fold;
  bool exact = true;    // for numbers as below
  bool floats = false;  // of floating dtypes only
};

std::vector<RowCase> row_cases() {
  const auto root = [](const auto& v) { return std::sqrt(variance(1)(v)); };
  const auto place = [](double (*extreme)(const std::vector<double>&)) {
    return [extreme](const std::vector<double>& v) {
      return static_cast<double>(std::find(v.begin(), v.end(), extreme(v)) - v.begin());
    };
  };
  return {
      {"sum", [](const Tensor& x) { return sum(x, {1}); }, total},
      {"prod", [](const Tensor& x) { return prod(x, {1}); }, product},
      {"amax", [](const Tensor& x) { return amax(x, {1}); }, largest},
      {"amin", [](const Tensor& x) { return amin(x, {1}); }, smallest},
      {"max", [](const Tensor& x) { return max(x, 1).values; }, largest},
      {"min", [](const Tensor& x) { return min(x, 1).values; }, smallest},
      {"argmax", [](const Tensor& x) { return argmax(x, 1); }, place(largest)},
      {"argmin", [](const Tensor& x) { return argmin(x, 1); }, place(smallest)},
      {"any", [](const Tensor& x) { return any(x, {1}); },
       [](const auto& v) { return largest(v) != 0; }},
      {"all", [](const Tensor& x) { return all(x, {1}); },
       [](const auto& v) { return smallest(v) != 0; }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 1).select(1, -1); }, total},
      {"norm of 1", [](const Tensor& x) { return norm(x, 1, {1}); }, total, true, true},
      {"mean", [](const Tensor& x) { return mean(x, {1}); }, average, false, true},
      {"norm", [](const Tensor& x) { return norm(x, 2, {1}); }, length, false, true},
      {"var", [](const Tensor& x) { return var(x, {1}); }, variance(1), false, true},
      {"stddev", [](const Tensor& x) { return stddev(x, {1}); }, root, false, true},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); }, log_sum_exp, false, true}};
}

/// Three rows of ones, with a few twos and zeros; bool: ones and zeros.
std::vector<double> ones_and_few_others(int64_t columns, DType dtype) {
  std::vector<double> v(static_cast<size_t>(3 * columns), 1);
  for (size_t i = 0; i < v.size(); ++i) {
    if (i % 43 == 5 && dtype != bool_) v[i] = 2;
    if (i % 97 == 11) v[i] = 0;
  }
  return v;
}

// Lengths around those of vectors and unrolled loops. GCC 12.2 at -O3 gave sum(ones({32})) of u8 as
// 8.
TEST(Reduce, RowsOfEveryLengthAndDtype) {
  const std::pair<DType, double> tolerances[] = {{f32, 1e-5},    {f64, 1e-12}, {f16, 2e-3},
                                                 {bf16, 1.6e-2}, {i64, 0},     {i32, 0},
                                                 {i8, 0},        {u8, 0},      {bool_, 0}};
  for (const Device device : devices())
    for (const auto& [dtype, tolerance] : tolerances)
      for (const int64_t n : {15, 16, 17, 31, 32, 33, 64, 100, 1024})
        for (const int64_t step : {1, 2}) {
          const std::vector<double> v = ones_and_few_others(n * step, dtype);
          const Tensor x = array(v, {3, n * step}, dtype).to(device).slice(1, 0, n * step, step);
          std::vector<std::vector<double>> rows(3);
          for (size_t i = 0; i < v.size(); i += static_cast<size_t>(step))
            rows[i / static_cast<size_t>(n * step)].push_back(v[i]);
          for (const RowCase& c : row_cases()) {
            if (c.floats && !is_floating(dtype)) continue;
            SCOPED_TRACE(std::string(c.name) + " of " + std::string(name(dtype)) + " on " +
                         device.str() + ", " + std::to_string(n) + " elements, every " +
                         std::to_string(step));
            const Tensor want = array({c.fold(rows[0]), c.fold(rows[1]), c.fold(rows[2])}, {3});
            for (const Tensor& from : {x, x.t().contiguous().t()}) {  // along rows, down columns
              const Tensor y = c.op(from);
              const double allowed = c.exact ? 0 : tolerance;
              ASSERT_NO_FATAL_FAILURE(expect_near(y, want.to(y.dtype()), allowed, c.name));
            }
          }
          const double all = total(rows[0]) + total(rows[1]) + total(rows[2]);
          const Tensor y = sum(x);
          EXPECT_EQ(values(y), values(array({all}, {}).to(y.dtype()))) << name(dtype) << " " << n;
        }
}

TEST(Reduce, NothingAndNan) {
  EXPECT_EQ(sum(zeros({0})).item(), 0);
  EXPECT_TRUE(std::isnan(mean(zeros({0})).item()));
  EXPECT_EQ(sum(zeros({3, 0}), {1}).to_vector<float>(), (std::vector<float>(3, 0)));
  EXPECT_TRUE(std::isnan(sum(Tensor::from<float>({1, NAN, 2}, {3})).item()));
}

TEST(Reduce, AxesAreChecked) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(sum(x, {2}), IndexError);
  EXPECT_THROW(sum(x, {0, -2}), ValueError);
  EXPECT_THROW(sum(Tensor()), ValueError);
}

TEST(Reduce, ThreadsDoNotChangeBits) {
  const Shape shapes[] = {{100003}, {3, 70001}, {70001, 3}, {300, 700}, {40, 6, 28, 28}};
  for (const Shape& shape : shapes) {
    const Tensor x = randn(shape);
    std::vector<std::vector<float>> results[4];
    for (int threads = 1; threads <= 4; ++threads) {
      const tests::Threads guard(threads);
      auto& r = results[threads - 1];
      r.push_back(sum(x).to_vector<float>());
      r.push_back(sum(x, {0}).to_vector<float>());
      r.push_back(sum(x, {-1}).to_vector<float>());
      if (shape.rank() == 4) r.push_back(sum(x, {0, 2, 3}).to_vector<float>());
    }
    for (int k = 1; k < 4; ++k) EXPECT_EQ(results[0], results[k]) << shape.str();
  }
}

TEST(Reduce, LongSumsStayExact) {
  // One at a time in f32 this stops at 2^24.
  EXPECT_EQ(sum(ones({(1 << 24) + 1000})).item(), (1 << 24) + 1000);
  EXPECT_EQ(sum(ones({1 << 25, 1}).expand({1 << 25, 2}), {0}).to_vector<float>()[1], 1 << 25);
  // In a row that is not dense four sums take turns; of 1,024 numbers each they are off by 1e-5.
  EXPECT_NEAR(sum(full({8192, 2}, 0.7).slice(1, 0, 1)).item() / (8192 * double{0.7f}), 1, 2e-6);
}

}  // namespace
}  // namespace brim::contract
