// Kernels that widen 16-bit floats some rows at a time, or element by element (reductions, linear
// layers), against the same ops in f32: sizes of many parts, rows of any length, views.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/embedding.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>

#include "threads.h"

namespace brim {
namespace {

using Op = std::function<Tensor(const Tensor&)>;

std::vector<float> as_floats(const Tensor& x) { return x.to(f32).contiguous().to_vector<float>(); }

/// Rounded to another neighbour at most, where sums are taken in another order than in f32, or
/// exponentials are no better than 16 bits need. Beside `size`, f32 rounds what is near 0.
void expect_neighbours(const Tensor& found, const Tensor& want, double size = 0) {
  const DType dtype = found.dtype();
  const double step = dtype == f16 ? 0x1p-10 : 0x1p-7;
  const double least = (dtype == f16 ? 0x1p-24 : 0) + size * 0x1p-20;
  const std::vector<float> a = as_floats(found), b = as_floats(want.to(dtype));
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < b.size(); ++k)
    ASSERT_LE(std::fabs(double{a[k]} - double{b[k]}), std::max(step * std::fabs(b[k]), least)) << k;
}

/// op of f16 and of bf16 numbers is that in f32, rounded, for any number of threads. Its gradient,
/// which is made from rounded numbers, is that of each entry of the first axis by itself, where y
/// has one.
void expect_rounded(const Op& op, const Shape& shape, bool nhwc = false, bool is_exact = true) {
  const auto leaf = [nhwc](const Tensor& t) {
    return (nhwc ? t.to(MemoryFormat::nhwc) : t.contiguous()).detach().set_requires_grad(true);
  };
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = leaf(randn(shape).to(dtype));
    const Tensor y = op(x);
    ASSERT_EQ(y.dtype(), dtype);
    std::vector<float> want = as_floats(op(x.detach().to(f32)).to(dtype));
    if (!is_exact) {
      ASSERT_NO_FATAL_FAILURE(expect_neighbours(y, op(x.detach().to(f32)))) << shape.str();
      want = as_floats(y);
    }
    ASSERT_EQ(as_floats(y), want) << name(dtype) << " " << shape.str();
    for (const int threads : {1, 3}) {
      const tests::Threads guard(threads);
      ASSERT_EQ(as_floats(op(x)), want) << name(dtype) << " " << shape.str();
    }
    if (y.rank() == 0 || y.shape()[0] != shape[0]) continue;
    const Tensor dy = randn(y.shape()).to(dtype);
    y.backward(dy);
    for (int64_t i = 0; i < shape[0]; ++i) {
      const Tensor one = leaf(x.detach().slice(0, i, i + 1));
      op(one).backward(dy.slice(0, i, i + 1));
      ASSERT_EQ(as_floats(x.grad().slice(0, i, i + 1)), as_floats(one.grad()))
          << name(dtype) << " " << shape.str() << " at " << i;
    }
  }
}

TEST(RowsThroughF32, Softmax) {
  manual_seed(1);
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{{{300, 257}, 1},
                                                                      {{7, 50, 130}, 2},
                                                                      {{3, 90, 11, 40}, 3},
                                                                      {{2, 60, 33, 31}, 1},
                                                                      {{9, 7001}, 1},
                                                                      {{5000, 10}, 1},
                                                                      {{1, 70000}, 1},
                                                                      {{3, 5}, 1}}) {
    const int along = axis;
    for (const auto& op : {softmax, log_softmax})
      expect_rounded([op, along](const Tensor& x) { return op(x, along); }, shape, false,
                     /*is_exact=*/false);
  }
}

TEST(RowsThroughF32, SoftmaxAlongTheFirstAxis) {
  manual_seed(7);
  const Tensor x = randn({70, 700}).to(bf16);
  expect_neighbours(softmax(x, 0), softmax(x.to(f32), 0));
}

TEST(RowsThroughF32, LogSumExp) {
  manual_seed(2);
  for (const bool keepdim : {false, true}) {
    expect_rounded([&](const Tensor& x) { return logsumexp(x, {2}, keepdim); }, {6, 31, 400});
    expect_rounded([&](const Tensor& x) { return logsumexp(x, {0, 2}, keepdim); }, {30, 40, 51});
    expect_rounded([&](const Tensor& x) { return logsumexp(x, {}, keepdim); }, {30, 40, 51});
  }
}

TEST(RowsThroughF32, LayerNorm) {
  manual_seed(3);
  for (const DType dtype : {f16, bf16}) {
    const Tensor w = randn({6, 50}).to(dtype), b = randn({6, 50}).to(dtype);
    for (const Shape& shape :
         {Shape{200, 6, 50}, Shape{3, 90, 6, 50}, Shape{6, 50}, Shape{2, 6, 50}}) {
      const Tensor x = randn(shape).to(dtype);
      const double size = 4;  // of numbers, weights and biases
      expect_neighbours(layer_norm(x, {6, 50}, w, b),
                        layer_norm(x.to(f32), {6, 50}, w.to(f32), b.to(f32)), size);
      expect_neighbours(layer_norm(x, {6, 50}), layer_norm(x.to(f32), {6, 50}), size);
    }
    // The weight has as many elements as x has rows.
    const Tensor x = randn({300, 300}).to(dtype), v = randn({300}).to(dtype);
    expect_neighbours(layer_norm(x, {300}, v, v),
                      layer_norm(x.to(f32), {300}, v.to(f32), v.to(f32)), 4);
  }
}

TEST(RowsThroughF32, Pools) {
  manual_seed(4);
  for (const bool nhwc : {false, true})
    for (const Shape& shape : {Shape{40, 8, 15, 14}, Shape{1, 8, 70, 70}, Shape{2, 3, 90, 91}}) {
      expect_rounded([](const Tensor& x) { return max_pool2d(x, 2); }, shape, nhwc);
      expect_rounded([](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); },
                     shape, nhwc);
      expect_rounded([](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); },
                     shape, nhwc);
      expect_rounded([](const Tensor& x) { return adaptive_avg_pool2d(x, 5); }, shape, nhwc);
    }
}

TEST(RowsThroughF32, NothingToDo) {
  EXPECT_EQ(softmax(zeros({0, 40000}, {.dtype = bf16}), 1).shape(), Shape({0, 40000}));
  EXPECT_EQ(softmax(zeros({40000, 0}, {.dtype = bf16}), 1).shape(), Shape({40000, 0}));
  EXPECT_EQ(layer_norm(zeros({0, 40000}, {.dtype = f16}), {40000}).shape(), Shape({0, 40000}));
}

/// Weights of 16 bits are widened in registers for a few rows, else copied: both are the product in
/// f32, rounded.
TEST(LinearOf16Bits, IsThatInF32Rounded) {
  manual_seed(8);
  const NoGrad guard;
  for (const DType dtype : {f16, bf16})
    for (const int64_t rows : {0, 1, 2, 5, 11, 12, 70})
      for (const int64_t inputs : {1, 7, 8, 65, 300})
        for (const int64_t outputs : {1, 3, 30, 90}) {
          const Tensor x = randn({rows, inputs}).to(dtype),
                       turned = randn({inputs, rows}).to(dtype);
          const Tensor w = randn({outputs, inputs + 3}).to(dtype).slice(1, 1, inputs + 1);
          const Tensor b = randn({outputs}).to(dtype);
          for (const Tensor& from :
               {x, turned.transpose(0, 1), randn({rows, 1}).to(dtype).expand({rows, inputs})})
            for (const Tensor& bias : {b, Tensor(), randn({1}).to(dtype).expand({outputs})}) {
              const Tensor y = linear(from, w, bias);
              ASSERT_EQ(y.dtype(), dtype);
              const Tensor wide =
                  linear(from.to(f32), w.to(f32), bias.defined() ? bias.to(f32) : bias);
              const std::vector<float> got = as_floats(y), want = as_floats(wide);
              const float unit = dtype == f16 ? 0x1p-10f : 0x1p-7f;
              for (size_t i = 0; i < want.size(); ++i)
                ASSERT_NEAR(got[i], want[i], unit * std::abs(want[i]) + 1e-4f)
                    << rows << " x " << inputs << " x " << outputs;
            }
        }
}

TEST(LinearOf16Bits, OfOneNumberManyTimes) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor w = ones({3, 300}, {.dtype = dtype});
    const Tensor y = linear(ones({1}, {.dtype = dtype}).expand({300}), w);
    EXPECT_EQ(as_floats(y), std::vector<float>(3, 300.0f));
  }
}

TEST(Embedding, CopiesRowsOf16Bits) {
  manual_seed(5);
  for (const DType dtype : {f16, bf16}) {
    const Tensor w = randn({50, 33}).to(dtype), ids = arange(49, -1, -3);
    const Tensor y = embedding(ids, w, 10);
    ASSERT_EQ(y.dtype(), dtype);
    EXPECT_EQ(as_floats(y), as_floats(embedding(ids, w.to(f32), 10)));
  }
}

/// Sums are made in f32 or wider, in another order than f32's perhaps.
TEST(ReduceOf16Bits, IsThatInF32Rounded) {
  manual_seed(6);
  const std::vector<
      std::pair<const char*, std::function<Tensor(const Tensor&, const std::vector<int>&)>>>
      ops = {
          {"sum", [](const Tensor& x, const std::vector<int>& a) { return sum(x, a); }},
          {"mean", [](const Tensor& x, const std::vector<int>& a) { return mean(x, a); }},
          {"amax", [](const Tensor& x, const std::vector<int>& a) { return amax(x, a); }},
          {"amin", [](const Tensor& x, const std::vector<int>& a) { return amin(x, a); }},
          {"norm", [](const Tensor& x, const std::vector<int>& a) { return norm(x, 2, a); }},
          {"var", [](const Tensor& x, const std::vector<int>& a) { return var(x, a); }},
          {"any",
           [](const Tensor& x, const std::vector<int>& a) { return any(x, a).to(x.dtype()); }},
          {"all",
           [](const Tensor& x, const std::vector<int>& a) { return all(x, a).to(x.dtype()); }},
      };
  for (const DType dtype : {f16, bf16}) {
    const Tensor base = randn({37, 260, 41}).to(dtype);
    const std::vector<Tensor> inputs = {base,
                                        base.transpose(0, 2),
                                        base.slice(2, 1, 40, 3),
                                        base.slice(1, 3, 9),
                                        randn({9, 5000}).to(dtype),
                                        randn({3000, 7}).to(dtype),
                                        randn({11, 300}).to(dtype).transpose(0, 1),
                                        randn({4, 20, 9, 9}).to(dtype).to(MemoryFormat::nhwc)};
    for (const Tensor& x : inputs)
      for (const auto& axes :
           std::vector<std::vector<int>>{{}, {0}, {1}, {x.rank() - 1}, {0, x.rank() - 1}})
        for (const auto& [op_name, op] : ops) {
          const Tensor y = op(x, axes);
          ASSERT_EQ(y.dtype(), dtype) << op_name;
          const std::vector<float> got = as_floats(y), want = as_floats(op(x.to(f32), axes));
          ASSERT_EQ(got.size(), want.size());
          const float unit = dtype == f16 ? 0x1p-10f : 0x1p-7f;
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], unit * std::abs(want[i]) + 1e-6f)
                << op_name << " " << name(dtype) << " " << x.shape().str() << " at " << i;
        }
  }
}

TEST(ReduceOf16Bits, OfNothingAndNaN) {
  for (const DType dtype : {f16, bf16}) {
    EXPECT_EQ(sum(zeros({0, 3}, {.dtype = dtype})).item(), 0);
    EXPECT_EQ(as_floats(sum(zeros({0, 3}, {.dtype = dtype}), {0})), std::vector<float>(3, 0.0f));
    Tensor x = ones({3, 5000}, {.dtype = dtype});
    x.slice(0, 1, 2).slice(1, 4321, 4322).fill_(NAN);
    const std::vector<float> most = as_floats(amax(x, {1}));
    EXPECT_EQ(most[0], 1);
    EXPECT_TRUE(std::isnan(most[1]));
    EXPECT_TRUE(std::isnan(amax(x).item()));
  }
}

}  // namespace
}  // namespace brim
