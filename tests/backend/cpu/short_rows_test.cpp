// Kernels over short rows go across many of them at a time, and strided ones through buffers; here
// against element by element, with sizes around those of their tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> as_doubles(const Tensor& x) { return x.to(f64).to_vector<double>(); }

void expect_same(const Tensor& got, const std::vector<double>& want, double tolerance = 0) {
  const std::vector<double> values = as_doubles(got);
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (values[i] == want[i] || (std::isnan(values[i]) && std::isnan(want[i]))) continue;
    ASSERT_LE(std::fabs(values[i] - want[i]), tolerance * std::max(1.0, std::fabs(want[i])))
        << "at " << i;
  }
}

/// (rows, columns) of small whole numbers.
Tensor table(int64_t rows, int64_t columns, DType dtype) {
  return remainder(mul(arange(rows * columns), 37.0), 101).view({rows, columns}).to(dtype);
}

/// What element(row, column) gives, row-major.
template <class Element>
std::vector<double> each(int64_t rows, int64_t columns, const Element& element) {
  std::vector<double> all;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) all.push_back(element(r, c));
  return all;
}

TEST(ShortRows, AreMoved) {
  for (const DType dtype : {u8, f16, f32, i64})
    for (const int64_t columns : {1, 2, 3, 7, 10, 17, 33, 300}) {
      constexpr int64_t kRows = 301;
      const Tensor x = table(kRows, columns, dtype);
      const std::vector<double> v = as_doubles(x);
      const auto at = [&](int64_t r, int64_t c) { return v[static_cast<size_t>(r * columns + c)]; };
      expect_same(flip(x, {1}),
                  each(kRows, columns, [&](auto r, auto c) { return at(r, columns - 1 - c); }));
      expect_same(flip(x, {0, 1}), each(kRows, columns, [&](auto r, auto c) {
                    return at(kRows - 1 - r, columns - 1 - c);
                  }));
      expect_same(repeat_interleave(x, 3, 1),
                  each(kRows, 3 * columns, [&](auto r, auto c) { return at(r, c / 3); }));
      expect_same(cat({x, x}, 1),
                  each(kRows, 2 * columns, [&](auto r, auto c) { return at(r, c % columns); }));
      expect_same(roll(x, {1}, {1}), each(kRows, columns, [&](auto r, auto c) {
                    return at(r, (c + columns - 1) % columns);
                  }));
      for (const int64_t step : {2, 3}) {
        const int64_t left = (columns + step - 1) / step;
        const Tensor part = x.slice(1, 0, columns, step);
        const auto want = each(kRows, left, [&](auto r, auto c) { return at(r, step * c); });
        expect_same(part.contiguous(), want);
        expect_same(part.to(dtype == f32 ? f16 : f32), want);
        Tensor to = zeros({kRows, columns}, {.dtype = dtype});
        to.slice(1, 0, columns, step).copy_(part);
        expect_same(
            to, each(kRows, columns, [&](auto r, auto c) { return c % step == 0 ? at(r, c) : 0; }));
      }
    }
}

TEST(ShortRows, AreSelected) {
  for (const DType dtype : {u8, f16, f32, i64})
    for (const int64_t columns : {0, 1, 3, 10, 17, 300})
      for (const int64_t count : {1, 5, 400}) {
        constexpr int64_t kRows = 90;
        const Tensor x = table(kRows, columns, dtype);
        std::vector<int64_t> index(static_cast<size_t>(count));
        for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i * 53 % kRows);
        const std::vector<double> v = as_doubles(x);
        const auto want = each(count, columns, [&](auto r, auto c) {
          return v[static_cast<size_t>(index[static_cast<size_t>(r)] * columns + c)];
        });
        const Tensor at = Tensor::from(index, {count});
        expect_same(index_select(x, 0, at), want);
        // Rows of a wider table, by indices that lie apart.
        const Tensor wide = cat({x, x}, 1).slice(1, 0, columns);
        expect_same(index_select(wide, 0, repeat_interleave(at, 2).slice(0, 0, 2 * count, 2)),
                    want);
      }
}

TEST(ShortRows, CatKeepsChannelLast) {
  const Tensor x = table(4, 3 * 5 * 6, f32).view({4, 3, 5, 6}), y = x.slice(1, 0, 2);
  const Tensor joined = cat({x, y}, 1);
  const Tensor channel_last =
      cat({x.to(MemoryFormat::nhwc), y.contiguous().to(MemoryFormat::nhwc)}, 1);
  EXPECT_TRUE(channel_last.is_contiguous(MemoryFormat::nhwc));
  EXPECT_TRUE(cat({x.to(MemoryFormat::nhwc), y}, 1).is_contiguous());
  expect_same(channel_last, as_doubles(joined));
}

TEST(ShortRows, AreBroadcast) {
  for (const DType dtype : {f16, f32, i64})
    for (const int64_t columns : {2, 10, 100, 130})
      for (const int64_t rows : {3, 60, 700}) {
        const Tensor x = table(rows, columns, dtype), row = table(1, columns, dtype),
                     column = table(rows, 1, dtype);
        const std::vector<double> v = as_doubles(x), w = as_doubles(row), u = as_doubles(column);
        const auto at = [&](int64_t r, int64_t c) {
          return v[static_cast<size_t>(r * columns + c)];
        };
        const auto with_row = each(
            rows, columns, [&](auto r, auto c) { return at(r, c) + w[static_cast<size_t>(c)]; });
        expect_same(add(x, row), with_row);
        expect_same(add(row.view({columns}), x), with_row);
        expect_same(add(x, column), each(rows, columns, [&](auto r, auto c) {
                      return at(r, c) + u[static_cast<size_t>(r)];
                    }));
        // A row for each of three planes, and a part of a wider table for x.
        const Tensor planes = table(3 * rows, columns + 1, dtype).slice(1, 0, columns);
        const Tensor cubes = planes.view({3, rows, columns}), rows3 = table(3, columns, dtype);
        expect_same(
            add(cubes.contiguous(), rows3.view({3, 1, columns})),
            as_doubles(add(planes.contiguous(), repeat_interleave(rows3, rows, 0).contiguous())));
        expect_same(add(cubes, rows3.view({3, 1, columns})),
                    as_doubles(add(cubes.contiguous(), rows3.view({3, 1, columns}))));
      }
}

/// Rows with NaN, infinities and ordinary numbers.
Tensor special(int64_t rows, int64_t columns, DType dtype) {
  const auto value = [&](int64_t r, int64_t c) {
    if (r % 7 == 3 && c == columns / 2) return kNaN;
    if (r % 7 == 4 && c == columns - 1) return kInf;
    if (r % 7 == 5) return -kInf;
    return static_cast<double>((r * 31 + c * 17) % 23) / 4 - 2.5;
  };
  return Tensor::from(each(rows, columns, value), {rows, columns}).to(dtype);
}

TEST(ShortRows, AreReduced) {
  for (const DType dtype : {f32, f64})
    for (const int64_t columns : {1, 2, 5, 8, 10, 31, 32, 33})
      for (const int64_t rows : {1, 3, 64, 300}) {
        const Tensor x = special(rows, columns, dtype);
        const std::vector<double> v = as_doubles(x);
        std::vector<double> sums, largest, norms, products;
        for (int64_t r = 0; r < rows; ++r) {
          double total = 0, most = -kInf, squares = 0, product = 1;
          for (int64_t c = 0; c < columns; ++c) {
            const double e = v[static_cast<size_t>(r * columns + c)];
            total += e;
            product *= e;
            squares += e * e;
            most = std::isnan(most) || e <= most ? most : e;  // NaN stays
          }
          sums.push_back(total);
          products.push_back(dtype == f32 ? static_cast<double>(static_cast<float>(product))
                                          : product);
          largest.push_back(most);
          norms.push_back(std::sqrt(squares));
        }
        expect_same(sum(x, {1}), sums, 1e-6);
        expect_same(prod(x, {1}), products, 1e-6);
        expect_same(norm(x, 2.0, {1}), norms, 1e-6);
        expect_same(var(x.transpose(0, 1).contiguous().transpose(0, 1), {1}, 0),
                    as_doubles(var(x, {1}, 0)), 1e-6);
        expect_same(amax(x, {1}), largest);
        for (double& m : largest) m = -m;
        expect_same(amin(neg(x), {1}), largest);
      }
}

TEST(ShortRows, HaveSoftmaxes) {
  for (const int64_t columns : {1, 2, 10, 32, 33})
    for (const int64_t rows : {1, 5, 64, 130}) {
      const Tensor x = special(rows, columns, f32);
      const std::vector<double> v = as_doubles(x);
      std::vector<double> want;
      for (int64_t r = 0; r < rows; ++r) {
        const auto first = v.begin() + r * columns;
        const double most = *std::max_element(first, first + columns);
        double total = 0;
        for (int64_t c = 0; c < columns; ++c) total += std::exp(first[c] - most);
        for (int64_t c = 0; c < columns; ++c) want.push_back(std::exp(first[c] - most) / total);
      }
      expect_same(softmax(x, 1), want, 1e-6);
      for (double& w : want) w = std::log(w);
      expect_same(log_softmax(x, 1), want, 2e-6);
    }
}

TEST(ShortRows, HaveCrossEntropies) {
  for (const int64_t columns : {2, 10, 32, 33}) {
    constexpr int64_t kRows = 131;
    const Tensor x = table(kRows, columns, f32) * 0.1;
    std::vector<int64_t> labels(kRows);
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = i % 5 == 2 ? -100 : static_cast<int64_t>(i) % columns;
    const std::vector<double> log_p = as_doubles(log_softmax(x.to(f64), 1));
    double total = 0, count = 0;
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] >= 0) {
        total -= log_p[i * static_cast<size_t>(columns) + static_cast<size_t>(labels[i])];
        ++count;
      }
    expect_same(cross_entropy(x, Tensor::from(labels, {kRows})), {total / count}, 1e-6);
  }
}

TEST(ShortRows, AreSorted) {
  for (const DType dtype : {f32, f16, f64, u8, i32, i64})
    for (const int64_t columns : {1, 2, 10, 16, 17, 40, 700})
      for (const bool descending : {false, true}) {
        constexpr int64_t kRows = 67;
        const bool floats = dtype == f32 || dtype == f64 || dtype == f16;
        const Tensor x = floats ? special(kRows, columns, dtype) : table(kRows, columns, dtype);
        const std::vector<double> v = as_doubles(x);
        std::vector<double> values, places;
        for (int64_t r = 0; r < kRows; ++r) {
          std::vector<int64_t> order(static_cast<size_t>(columns));
          std::iota(order.begin(), order.end(), int64_t{0});
          const auto at = [&](int64_t i) { return v[static_cast<size_t>(r * columns + i)]; };
          const auto less = [&](int64_t a, int64_t b) {  // NaN is the largest
            return std::isnan(at(b)) ? !std::isnan(at(a)) : at(a) < at(b);
          };
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return descending ? less(b, a) : less(a, b);
          });
          for (const int64_t i : order) {
            values.push_back(at(i));
            places.push_back(static_cast<double>(i));
          }
        }
        const Sorted all = sort(x, 1, descending);
        expect_same(all.values, values);
        expect_same(all.indices, places);
        for (const int64_t count : {1, 5, 16, 17, 100}) {
          if (count > columns) break;
          const Sorted some = topk(x, count, 1, descending);
          expect_same(some.values, as_doubles(all.values.slice(1, 0, count)));
          expect_same(some.indices, as_doubles(all.indices.slice(1, 0, count)));
        }
      }
}

TEST(ShortRows, HaveRunningSums) {
  for (const DType dtype : {f32, u8, i64})
    for (const int64_t columns : {1, 3, 10, 64, 65, 200})
      for (const int64_t rows : {1, 7, 8, 19}) {
        const Tensor x = table(rows, columns, dtype);
        const std::vector<double> v = as_doubles(x);
        std::vector<double> along = v, down = v;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            const size_t i = static_cast<size_t>(r * columns + c);
            if (c > 0) along[i] += along[i - 1];
            if (r > 0) down[i] += down[i - static_cast<size_t>(columns)];
          }
        expect_same(cumsum(x, 1), along);
        expect_same(cumsum(x, 0), down);
      }
}

}  // namespace
}  // namespace brim
