// Products on CUDA devices against the CPU: sizes and formats that the contract does not have.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/pool.h>

#include "backend/expect_close.h"

namespace brim {
namespace {

/// Skipped where no CUDA device (nor its emulation) is.
class CudaProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }
};

void expect_within(const Tensor& y, const Tensor& expected, double tolerance) {
  ASSERT_EQ(y.shape(), expected.shape());
  const std::vector<double> a = numbers(y), b = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

/// The product there and here.
void check_matmul(const Tensor& a, const Tensor& b, double tolerance) {
  const Device cuda = Device::cuda(0);
  expect_within(matmul(a.to(cuda), b.to(cuda)), matmul(a, b), tolerance);
}

// Sums in several parts, which are added in order.
TEST_F(CudaProducts, LongSums) {
  check_matmul(randn({5, 3000}), randn({3000, 7}), 2e-3);
  check_matmul(randn({2, 9, 777}), randn({2, 777, 33}), 1e-3);
  const Tensor a = randn({5, 3000}).to(Device::cuda(0)), b = randn({3000, 7}).to(Device::cuda(0));
  EXPECT_EQ(matmul(a, b).to_vector<float>(), matmul(a, b).to_vector<float>());
}

// Whole tiles of 128 x 64 for the kernel that computes them, and edges.
TEST_F(CudaProducts, LargeTiles) {
  check_matmul(randn({128, 64}), randn({64, 64}), 1e-4);
  check_matmul(randn({1, 130, 19}).expand({2, 130, 19}), randn({19, 70}), 1e-4);
  check_matmul(randn({129, 8}), randn({3, 131, 8}).transpose(-1, -2), 1e-4);
}

using Outputs = std::vector<Tensor>;
using Formula = std::function<Outputs(const Tensor& x, Device device)>;

/// f(x) for x in both memory formats there, and here.
void check_formats(const Shape& shape, double tolerance, const Formula& f) {
  const Tensor x = randn(shape);
  const Outputs expected = f(x, Device::cpu());
  const Device cuda = Device::cuda(0);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    SCOPED_TRACE(format == MemoryFormat::nhwc ? "nhwc" : "nchw");
    const Outputs y = f(x.to(cuda).to(format), cuda);
    for (size_t i = 0; i < y.size(); ++i) expect_within(y[i], expected[i], tolerance);
  }
}

/// conv2d and its gradients.
void check_conv(const Shape& shape, const Shape& weight, const Conv2dOptions& options) {
  const Tensor w0 = randn(weight);
  Tensor dy0;
  check_formats(shape, 2e-3, [&](const Tensor& from, Device device) -> Outputs {
    const Tensor x = from.detach().set_requires_grad();
    const Tensor w = w0.detach().to(device).detach().set_requires_grad();
    const Tensor y = conv2d(x, w, {}, options);
    if (!dy0.defined()) dy0 = randn(y.shape());
    y.backward(dy0.to(device));
    return {y, x.grad(), w.grad()};
  });
}

TEST_F(CudaProducts, Convolutions) {
  check_conv({4, 5, 12, 11}, {7, 5, 3, 3}, {.padding = 1});
  check_conv({2, 6, 9, 14}, {4, 3, 3, 2}, {.stride = {2, 1}, .padding = {0, 2}, .groups = 2});
  check_conv({3, 4, 13, 9}, {8, 1, 3, 3}, {.stride = 2, .dilation = 2, .groups = 4});
  check_conv({2, 40, 6, 5}, {36, 40, 1, 1}, {});
  check_conv({1, 3, 40, 33}, {2, 3, 7, 5}, {.stride = 3, .padding = 3});
}

// Many images and outputs for large tiles; and what lies far apart is counted in 64 bits (emulated
// from 20000 elements on, so that these are enough).
TEST_F(CudaProducts, LargeConvolutions) {
  check_conv({1, 2, 9, 8}, {130, 2, 2, 3}, {.padding = 1});
  check_conv({1, 70, 6, 5}, {129, 70, 1, 1}, {});
  check_conv({1, 20, 36, 30}, {2, 20, 2, 3}, {.stride = {3, 2}, .padding = {1, 0}});
}

TEST_F(CudaProducts, FarApart) {
  const Tensor far = randn({3, 160, 150});
  const auto slice_of = [](const Tensor& t) { return t.slice(1, 0, 9).slice(2, 0, 7); };
  const Tensor far_there = far.to(Device::cuda(0));
  const Tensor b = randn({7, 5});
  expect_within(matmul(slice_of(far_there), b.to(Device::cuda(0))), matmul(slice_of(far), b), 1e-5);
  const Tensor c = far.permute({1, 0, 2}).slice(0, 0, 4).slice(2, 0, 6);  // (4, 3, 6)
  const Tensor c_there = far_there.permute({1, 0, 2}).slice(0, 0, 4).slice(2, 0, 6);
  expect_within(matmul(c_there, c_there.transpose(-1, -2)), matmul(c, c.transpose(-1, -2)), 1e-5);
  expect_within(c_there + 1.0, c + 1.0, 0);
  expect_within(far_there.transpose(0, 2) * 2.0, far.transpose(0, 2) * 2.0, 0);  // 72000 elements

  const Tensor w0 = randn({4, 3, 2, 3});
  const auto convolve = [&](const Tensor& images, Device device) -> Outputs {
    const Tensor x = images.slice(2, 0, 6).slice(3, 0, 5).detach().set_requires_grad();
    const Tensor w = w0.to(device).detach().set_requires_grad();
    const Tensor y = conv2d(x, w, {}, {.stride = {2, 1}, .padding = 1});
    y.backward(y.detach());
    return {y, x.grad(), w.grad()};
  };
  const Outputs expected = convolve(far.reshape({1, 3, 160, 150}), Device::cpu());
  const Outputs y = convolve(far_there.reshape({1, 3, 160, 150}), Device::cuda(0));
  for (size_t i = 0; i < y.size(); ++i) expect_within(y[i], expected[i], 1e-4);
}

TEST_F(CudaProducts, Poolings) {
  const std::function<Tensor(const Tensor&)> poolings[] = {
      [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); },
      [](const Tensor& x) {
        return max_pool2d(x, {2, 3}, {.stride = 1, .dilation = 2, .ceil_mode = true});
      },
      [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); },
      [](const Tensor& x) {
        return avg_pool2d(x, {3, 2}, {.ceil_mode = true, .count_include_pad = false});
      },
      [](const Tensor& x) {
        return adaptive_avg_pool2d(x, {3, 5});
      },
  };
  for (const auto& pooling : poolings)
    check_formats({2, 5, 9, 8}, 1e-5, [&](const Tensor& from, Device) -> Outputs {
      const Tensor x = from.detach().set_requires_grad();
      const Tensor y = pooling(x);
      y.backward(y.detach());
      return {y, x.grad()};
    });
}

}  // namespace
}  // namespace brim
