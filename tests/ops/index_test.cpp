// What the contract cases of movement, indexing, sorting and creation do not show: errors, special
// values, and independence of the number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>

#include "message_of.h"
#include "threads.h"

namespace brim {
namespace {

using tests::message_of;

TEST(Index, OutOfRangeNamesOpIndexAndAxis) {
  const Tensor x = zeros({3, 5});
  EXPECT_EQ(message_of([&] {
              index_select(x, 1, Tensor::from<int64_t>({4, 5}, {2}));
            }),
            "[index_select] index 5 is out of range for axis 1 of size 5");
  EXPECT_EQ(message_of([&] {
              gather(x, 0, Tensor::from<int64_t>({-1}, {1, 1}));
            }),
            "[gather] index -1 is out of range for axis 0 of size 3");
  const Tensor far = Tensor::from<int64_t>({9}, {1, 1}), one = ones({1, 1});
  EXPECT_THROW(scatter(x, 0, far, one), IndexError);
  EXPECT_THROW(scatter_add(x, 0, far, one), IndexError);
  EXPECT_THROW(take_along(x, far, 1), IndexError);
  EXPECT_THROW(index_add(x, 0, far.view({1}), ones({1, 5})), IndexError);
  EXPECT_THROW(one_hot(Tensor::from<int64_t>({3}, {1}), 3), IndexError);
  EXPECT_THROW(index_select(zeros({0, 2}), 0, Tensor::from<int64_t>({0}, {1})), IndexError);
}

TEST(Index, BadArguments) {
  const Tensor x = zeros({3, 5}), i = Tensor::from<int64_t>({0, 1}, {2});
  EXPECT_THROW(index_select(x, 2, i), IndexError);
  EXPECT_THROW(index_select(x, 0, i.view({1, 2})), ShapeError);
  EXPECT_THROW(index_select(x, 0, i.to(f32)), DTypeError);
  EXPECT_THROW(index_select(x, 0, Tensor()), ValueError);
  EXPECT_THROW(gather(x, 0, i), ShapeError);
  EXPECT_THROW(gather(x, 0, zeros({1, 6}, {.dtype = i64})), ShapeError);
  EXPECT_THROW(scatter_add(x, 0, zeros({2, 2}, {.dtype = i64}), ones({1, 2})), ShapeError);
  EXPECT_THROW(scatter_add(x, 0, zeros({1, 1}, {.dtype = i64}), ones({1, 1}, {.dtype = f64})),
               DTypeError);
  EXPECT_THROW(index_add(x, 0, i, ones({2, 4})), ShapeError);
  EXPECT_THROW(masked_select(x, x), DTypeError);
  EXPECT_THROW(masked_select(x, zeros({4}, {.dtype = bool_})), ShapeError);
  EXPECT_THROW(one_hot(zeros({0}, {.dtype = i64})), ValueError);
}

TEST(Index, ScatterKeepsTheLastOfRepeats) {
  const Tensor i = Tensor::from<int64_t>({1, 1, 0}, {3}), s = Tensor::from<float>({1, 2, 3}, {3});
  EXPECT_EQ(scatter(zeros({3}), 0, i, s).to_vector<float>(), (std::vector<float>{3, 2, 0}));
}

TEST(Index, RepeatsAddUpInTheSameOrderOnAnyNumberOfThreads) {
  Generator g(1);
  const Tensor i = randint(0, 7, {400}, {.dtype = i64}, &g), s = randn({400, 300}, {}, &g);
  const Tensor wide = i.unsqueeze(1).expand(s.shape());
  std::vector<std::vector<float>> rows, columns, single;
  for (int threads : {1, 2, 3}) {
    const tests::Threads guard(threads);
    rows.push_back(index_add(zeros({7, 300}), 0, i, s).to_vector<float>());
    columns.push_back(scatter_add(zeros({300, 7}), 1, wide.t(), s.t()).to_vector<float>());
    single.push_back(scatter_add(zeros({7, 300}), 0, wide.contiguous(), s).to_vector<float>());
  }
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(rows[0], rows[2]);
  EXPECT_EQ(columns[0], columns[1]);
  EXPECT_EQ(columns[0], columns[2]);
  EXPECT_EQ(single[0], rows[0]);
  EXPECT_EQ(single[0], single[1]);
}

TEST(Index, GradientOfRepeatedSelection) {
  Tensor x = zeros({3, 2}, {.requires_grad = true});
  sum(index_select(x, 0, Tensor::from<int64_t>({2, 2, 0}, {3}))).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 2, 2}));
}

TEST(Index, NumbersHaveOneAxis) {
  Tensor x = Tensor::from<float>({3}, {}).set_requires_grad();
  const Tensor zero = Tensor::from<int64_t>({0}, {}), list = zero.reshape({1});
  for (const int axis : {0, -1}) {
    const Sorted ordered = sort(x, axis), top = topk(x, 1, axis);
    const std::vector<Tensor> all = {ordered.values,
                                     top.values,
                                     gather(x, axis, zero),
                                     index_select(x, axis, list),
                                     scatter(x * 0, axis, zero, x),
                                     scatter_add(zeros({}), axis, zero, x)};
    x.zero_grad();
    for (const Tensor& y : all) {
      EXPECT_EQ(y.shape(), Shape());
      EXPECT_EQ(y.item(), 3);
      y.backward();
    }
    EXPECT_EQ(x.grad().item(), 6);
    EXPECT_EQ(ordered.indices.shape(), Shape());
    EXPECT_EQ(top.indices.item<int64_t>(), 0);
    EXPECT_EQ(gather(x, axis, list).shape(), Shape({1}));
  }
  EXPECT_THROW(sort(x, 1), IndexError);
  EXPECT_THROW(gather(x, 1, zero), IndexError);
  EXPECT_THROW(gather(x, 0, zero.reshape({1, 1})), ShapeError);
  EXPECT_THROW(index_select(x, 0, Tensor::from<int64_t>({0, 0}, {2})), ShapeError);
}

TEST(Index, OneHotFindsTheNumberOfClasses) {
  const Tensor y = one_hot(Tensor::from<int64_t>({1, 0, 2}, {3}), -1, f32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 0, 1, 0, 0, 0, 0, 1}));
}

TEST(Sort, NanIsTheLargestAndTiesKeepTheirOrder) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (DType dtype : {f32, f64, f16, bf16}) {
    const Tensor x = Tensor::from<float>({1, nan, -inf, inf, -0.0f, 0, nan, 1}, {8}).to(dtype);
    EXPECT_EQ(sort(x).indices.to_vector<int64_t>(), (std::vector<int64_t>{2, 4, 5, 0, 7, 3, 1, 6}));
    EXPECT_EQ(sort(x, 0, true).indices.to_vector<int64_t>(),
              (std::vector<int64_t>{1, 6, 3, 0, 7, 4, 5, 2}));
    EXPECT_EQ(topk(x, 3).indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 6, 3}));
    EXPECT_TRUE(std::signbit(sort(x).values.to(f64)[1].item()));
  }
}

TEST(Sort, ExtremeIntegers) {
  const Tensor x = Tensor::from<int64_t>({INT64_MAX, 0, INT64_MIN, -1}, {4});
  EXPECT_EQ(argsort(x).to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 1, 0}));
  const Tensor b = Tensor::from<int8_t>({127, 0, -128, -1}, {4});
  EXPECT_EQ(argsort(b).to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 1, 0}));
}

TEST(Sort, LongLinesOnThreads) {
  Generator g(3);
  const Tensor x = randn({64, 1000}, {}, &g);
  const auto [values, indices] = sort(x);
  EXPECT_EQ(gather(x, 1, indices).to_vector<float>(), values.to_vector<float>());
  const std::vector<float> first = values[0].to_vector<float>();
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  EXPECT_EQ(topk(x, 10, 1, false).values.to_vector<float>(),
            values.slice(1, 0, 10).to_vector<float>());
}

TEST(Sort, BadArguments) {
  EXPECT_THROW(topk(zeros({3}), 4), ValueError);
  EXPECT_THROW(topk(zeros({3}), -1), ValueError);
  EXPECT_THROW(sort(zeros({3}), 1), IndexError);
  EXPECT_THROW(sort(Tensor()), ValueError);
}

TEST(Join, BadArguments) {
  EXPECT_EQ(message_of([] {
              cat({zeros({2, 3}), zeros({2, 4})});
            }),
            "[cat] tensor 1 has shape (2, 4), the first (2, 3); only axis 0 may differ");
  EXPECT_THROW(cat({}), ValueError);
  EXPECT_THROW(cat({zeros({2}), zeros({2}, {.dtype = f64})}), DTypeError);
  EXPECT_THROW(cat({zeros({2}), zeros({2, 1})}), ShapeError);
  EXPECT_THROW(cat({zeros({2}), Tensor()}), ValueError);
  EXPECT_THROW(stack({zeros({2}), zeros({3})}), ShapeError);
  EXPECT_THROW(split(zeros({5}), 0), ValueError);
  EXPECT_THROW(split(zeros({5}), {2, 2}), ShapeError);
  EXPECT_THROW(split(zeros({5}), {7, -2}), ShapeError);
  EXPECT_THROW(chunk(zeros({5}), 0), ValueError);
}

TEST(Join, ResultsNeverShareMemoryWithInputs) {
  const Tensor x = ones({2, 2});
  for (const Tensor& y :
       {cat({x}), repeat(x, {1, 1}), repeat_interleave(x, 1, 0), roll(x, {0}, {0}), roll(x, {4}),
        pad(x, {0, 0}), pad(x, {0, 0}, PadMode::reflect), pad(x, {0, -1}, PadMode::circular),
        flip(x, {})})
    EXPECT_NE(y.storage(), x.storage());
}

TEST(Move, BadArguments) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(repeat(x, {2}), ShapeError);
  EXPECT_THROW(repeat(x, {2, -1}), ValueError);
  EXPECT_THROW(repeat(x, {INT64_MAX, 2}), ShapeError);
  EXPECT_THROW(repeat_interleave(x, -1, 0), ValueError);
  EXPECT_THROW(repeat_interleave(x, std::vector<int64_t>{1}, 0), ShapeError);
  EXPECT_THROW(repeat_interleave(x, std::vector<int64_t>{1, -1}, 0), ValueError);
  for (const int64_t many : {int64_t{1} << 60, INT64_MAX, int64_t{1} << 58})
    EXPECT_THROW(repeat_interleave(ones({2}), std::vector<int64_t>{many, many}, 0), Error);
  EXPECT_THROW(flip(x, {0, -2}), ValueError);
  EXPECT_THROW(roll(x, {1, 2}), ValueError);
  EXPECT_THROW(roll(x, {1}, {0, 1}), ValueError);
  EXPECT_THROW(pad(x, {1}), ShapeError);
  EXPECT_THROW(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(pad(x, {-2, -2}), ShapeError);
  EXPECT_THROW(pad(x, {3, 0}, PadMode::reflect), ShapeError);
  EXPECT_THROW(pad(x, {4, 0}, PadMode::circular), ShapeError);
  EXPECT_THROW(pad(zeros({0}), {1, 0}, PadMode::replicate), ShapeError);
  EXPECT_THROW(tril(zeros({3})), ShapeError);
}

TEST(Create, Ranges) {
  EXPECT_EQ(arange(4).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(arange(5, -4, -2).to_vector<int64_t>(), (std::vector<int64_t>{5, 3, 1, -1, -3}));
  EXPECT_EQ(arange(0.0, 1.0, 0.25).to_vector<float>(), (std::vector<float>{0, .25f, .5f, .75f}));
  EXPECT_EQ(arange(3, {.dtype = f16}).to(f32).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (std::vector<float>{0, .25f, .5f, .75f, 1}));
  EXPECT_EQ(linspace(2, 7, 1).to_vector<float>(), std::vector<float>{2});
  EXPECT_EQ(linspace(2, 7, 0).numel(), 0);
  EXPECT_EQ(linspace(0, 0.1, 4, {.dtype = f64}).to_vector<double>().back(), 0.1);
  EXPECT_EQ(eye(2, 3).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_THROW(arange(0, 3, 0), ValueError);
  constexpr int64_t kInexact = (int64_t{1} << 53) + 1;
  EXPECT_THROW(arange(kInexact, kInexact + 3), ValueError);
  EXPECT_THROW(full({2}, static_cast<double>(kInexact), {.dtype = i64}), ValueError);
  EXPECT_THROW(arange(0, 3, -1), ValueError);
  EXPECT_THROW(arange(0.0, std::nan("")), ValueError);
  EXPECT_THROW(linspace(0, 1, -1), ValueError);
  EXPECT_THROW(eye(-2), ShapeError);
}

}  // namespace
}  // namespace brim
