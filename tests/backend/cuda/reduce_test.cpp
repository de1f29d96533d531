// CUDA's reducing kernels against the CPU's on sizes that the contract suite leaves out: several
// parts, blocks and warps, columns, views; the same bits each time. Skipped without a CUDA device
// (BRIM_BACKEND_PATH may name the emulated one).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <brim/core/random.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>

namespace brim {
namespace {

using Op = std::function<Tensor(const Tensor&)>;

class CudaReduce : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(11);
  }
  const Device cuda_ = Device::cuda(0);

  /// Runs op on both devices; NaN must be NaN on both, the rest close, and repeated to the bit.
  void expect_same(const std::string& what, const Tensor& on_cpu, const Tensor& on_cuda,
                   const Op& op, double tolerance = 2e-5) {
    const auto values = [](const Tensor& t) {
      return t.to(Device::cpu()).to(f64).to_vector<double>();
    };
    const Tensor first = op(on_cuda);
    EXPECT_EQ(first.device(), cuda_) << what;
    const std::vector<double> want = values(op(on_cpu)), got = values(first);
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
      const bool equal = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
      ASSERT_TRUE(equal || std::abs(got[i] - want[i]) <= tolerance * (1 + std::abs(want[i])))
          << what << ", element " << i << ": " << got[i] << ", on the CPU " << want[i];
    }
    const std::vector<double> again = values(op(on_cuda));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(again[i] == got[i] || std::isnan(got[i])) << what << ", element " << i;
  }

  void expect_same(const std::string& what, const Tensor& x, const Op& op,
                   double tolerance = 2e-5) {
    expect_same(what, x, x.to(cuda_), op, tolerance);
  }
};

std::vector<std::vector<int>> axes_of(const Shape& shape) {
  if (shape.rank() == 1) return {{}};
  std::vector<std::vector<int>> all = {{}, {0}, {-1}};
  if (shape.rank() == 4) all.push_back({0, 2, 3});
  return all;
}

const Shape kReduceShapes[] = {{9001}, {3, 4099}, {2500, 3}, {300, 40}, {3, 700}, {4, 6, 9, 11}};

TEST_F(CudaReduce, LargeShapes) {
  for (const Shape& shape : kReduceShapes) {
    const Tensor x = randn(shape);
    for (const std::vector<int>& axes : axes_of(shape)) {
      const std::string what =
          shape.str() + ", axis " + (axes.empty() ? "all" : std::to_string(axes.back()));
      expect_same(
          "sum " + what, x, [&](const Tensor& t) { return sum(t, axes); }, 1e-4);
      expect_same("mean " + what, x, [&](const Tensor& t) { return mean(t, axes); });
      expect_same("norm " + what, x, [&](const Tensor& t) { return norm(t, 2, axes); });
      expect_same("var " + what, x, [&](const Tensor& t) { return var(t, axes); });
      expect_same(
          "amax " + what, x, [&](const Tensor& t) { return amax(t, axes); }, 0);
      expect_same(
          "amin " + what, x, [&](const Tensor& t) { return amin(t, axes); }, 0);
      expect_same("any " + what, x, [&](const Tensor& t) { return any(t, axes); });
      expect_same("logsumexp " + what, x, [&](const Tensor& t) { return logsumexp(t, axes); });
    }
  }
}

TEST_F(CudaReduce, ViewsOfTheDevice) {
  const Tensor x = randn({60, 500}), on_cuda = x.to(cuda_);
  const auto views = [](const Tensor& t) {
    return std::vector<Tensor>{t.t(), t.slice(1, 3, 490), t.slice(0, 2, 3).expand({60, 500}),
                               t.slice(1, 7, 8).expand({60, 500}).t()};
  };
  for (size_t i = 0; i < 4; ++i)
    for (const std::vector<int>& axes : axes_of({1, 1}))
      expect_same(
          "sum of view " + std::to_string(i), views(x)[i], views(on_cuda)[i],
          [&](const Tensor& t) { return sum(t, axes); }, 1e-4);
}

TEST_F(CudaReduce, IntegersAndSixteenBits) {
  for (const DType dtype : {i64, i32, i8, u8, bool_, f16, bf16, f64}) {
    const std::string what(name(dtype));
    const Tensor x = (is_floating(dtype) ? randn({7, 1100}) : randn({7, 1100}) * 30).to(dtype);
    const double tolerance = dtype == f16 ? 2e-3 : dtype == bf16 ? 1.6e-2 : 1e-12;
    for (const int axis : {0, 1}) {
      expect_same(
          "sum " + what, x, [&](const Tensor& t) { return sum(t, {axis}); }, tolerance);
      expect_same(
          "amax " + what, x, [&](const Tensor& t) { return amax(t, {axis}); }, 0);
      expect_same(
          "all " + what, x, [&](const Tensor& t) { return all(t, {axis}); }, 0);
      expect_same(
          "argmax " + what, x, [&](const Tensor& t) { return argmax(t, axis); }, 0);
      expect_same(
          "argmin " + what, x, [&](const Tensor& t) { return argmin(t, axis); }, 0);
      expect_same(
          "cumsum " + what, x, [&](const Tensor& t) { return cumsum(t, axis); }, tolerance);
    }
    const Tensor few = x.slice(1, 0, 5);
    expect_same(
        "prod " + what, few, [](const Tensor& t) { return prod(t, {0}); }, tolerance);
  }
}

TEST_F(CudaReduce, NaNInfinityAndNothing) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t at : {0, 5, 70, 1199}) {
    for (const double value : {static_cast<double>(NAN), static_cast<double>(inf)}) {
      Tensor x = randn({3, 1200});
      x.slice(1, at, at + 1).fill_(value);
      for (const int axis : {0, 1}) {
        expect_same(
            "amax", x, [&](const Tensor& t) { return amax(t, {axis}); }, 0);
        expect_same(
            "argmin", x, [&](const Tensor& t) { return argmin(t, axis); }, 0);
        expect_same(
            "argmax", x, [&](const Tensor& t) { return argmax(t, axis); }, 0);
        expect_same("softmax", x, [&](const Tensor& t) { return softmax(t, axis); });
        expect_same("log_softmax", x, [&](const Tensor& t) { return log_softmax(t, axis); });
        expect_same("logsumexp", x, [&](const Tensor& t) { return logsumexp(t, {axis}); });
      }
    }
  }
  const Tensor lowest = full({4, 70}, -inf);
  for (const int axis : {0, 1}) {
    expect_same("softmax", lowest, [&](const Tensor& t) { return softmax(t, axis); });
    expect_same("logsumexp", lowest, [&](const Tensor& t) { return logsumexp(t, {axis}); });
  }
  expect_same("sum", zeros({3, 0}), [](const Tensor& t) { return sum(t, {1}); });
  expect_same("mean", zeros({0}), [](const Tensor& t) { return mean(t); });
  expect_same("prod", zeros({0, 4}), [](const Tensor& t) { return prod(t, {0}); });
}

TEST_F(CudaReduce, SoftmaxAndLayerNormOfManySizes) {
  for (const Shape& shape : {Shape{9, 33}, Shape{3, 1500}, Shape{2, 9000}, Shape{5, 40, 7}}) {
    const Tensor x = randn(shape) * 3 + 5, dy = randn(shape);
    for (const int axis : {0, 1}) {
      for (const bool log : {false, true})
        expect_same("softmax " + shape.str(), x, [&](const Tensor& t) {
          Tensor leaf = t.detach().set_requires_grad();
          const Tensor y = log ? log_softmax(leaf, axis) : softmax(leaf, axis);
          y.backward(dy.to(t.device()));
          return y.detach() + leaf.grad();
        });
    }
    expect_same(
        "layer_norm " + shape.str(), x,
        [&](const Tensor& t) {
          Tensor leaf = t.detach().set_requires_grad();
          Tensor weight = full({shape.back()}, 1.5, {.device = t.device()}).set_requires_grad();
          const Tensor y = layer_norm(leaf, {shape.back()}, weight);
          y.backward(dy.to(t.device()));
          return (y.detach() + leaf.grad()) * weight.grad();
        },
        1e-4);
  }
}

TEST_F(CudaReduce, CumsumAlongLongAndManyLines) {
  for (const Shape& shape : {Shape{3, 1000}, Shape{1000, 3}, Shape{5000, 4}, Shape{2, 300, 5}})
    for (const int axis : {0, 1})
      expect_same(
          "cumsum " + shape.str(), randn(shape), [&](const Tensor& t) { return cumsum(t, axis); },
          1e-4);
}

}  // namespace
}  // namespace brim
