// Poolings, interpolation and borders of nhwc tensors give what they give over row-major ones, in
// nhwc.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/interpolate.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include "distance.h"
#include "threads.h"

namespace brim {
namespace {

using Pooling = std::function<Tensor(const Tensor&)>;
using tests::distance;

const Pooling kPoolings[] = {
    [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); },
    [](const Tensor& x) { return max_pool2d(x, 2); },
    [](const Tensor& x) {
      return max_pool2d(x, {2, 3}, {.stride = 1, .dilation = 2, .ceil_mode = true});
    },
    [](const Tensor& x) {
      return max_pool2d(x, {3, 2}, {.stride = {2, 3}});
    },
    [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); },
    [](const Tensor& x) {
      return avg_pool2d(x, 2, {.ceil_mode = true, .count_include_pad = false});
    },
    [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); },
    [](const Tensor& x) {
      return adaptive_avg_pool2d(x, {3, 2});
    },
    [](const Tensor& x) { return interpolate(x, {.scale = 2}); },
    [](const Tensor& x) {
      return interpolate(x, {.size = {5, 13}});
    },
    [](const Tensor& x) { return interpolate(x, {.scale = 2, .mode = Interpolation::bilinear}); },
    [](const Tensor& x) {
      return interpolate(x,
                         {.size = {4, 11}, .mode = Interpolation::bilinear, .align_corners = true});
    },
    [](const Tensor& x) {
      return pad(x, {2, 0, 0, 1}, PadMode::constant, 3);
    },
    [](const Tensor& x) {
      return pad(x, {2, 5, 0, 3}, PadMode::reflect);
    },
    [](const Tensor& x) {
      return pad(x, {1, -2, 4, 0}, PadMode::circular);
    },
};

TEST(PoolFormat, NhwcEqualsRowMajor) {
  manual_seed(1);
  for (const Pooling& pool : kPoolings)
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Shape& shape :
           {Shape{2, 5, 9, 8}, Shape{1, 1, 7, 7}, Shape{3, 33, 6, 7}, Shape{1, 2, 9, 70}}) {
        const Tensor x = randn(shape, {.dtype = dtype});
        const Tensor plain = x.clone().set_requires_grad();
        const Tensor pixels = x.clone().to(MemoryFormat::nhwc).set_requires_grad();
        const Tensor a = pool(plain), b = pool(pixels);
        const Tensor dy = randn(a.shape(), {.dtype = dtype});
        EXPECT_TRUE(b.is_contiguous(MemoryFormat::nhwc));
        EXPECT_LT(distance(a, b), 1e-6);
        sum(a * dy).backward();
        sum(b * dy).backward();
        EXPECT_LT(distance(plain.grad(), pixels.grad()), 1e-6);
      }
}

TEST(PoolFormat, ThreadsChangeNothing) {
  manual_seed(2);
  const Tensor image = randn({2, 5, 111, 99});
  for (const Pooling& pool : kPoolings)
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const auto both = [&](int threads) {
        const tests::Threads some(threads);
        const Tensor x = image.clone().to(format).set_requires_grad();
        const Tensor y = pool(x);
        sum(y * y.detach()).backward();
        return std::pair(y.to_vector<float>(), x.grad().to_vector<float>());
      };
      EXPECT_EQ(both(1), both(3));
    }
}

TEST(PoolFormat, MaxOfNaNAndInfinity) {
  Tensor x = full({1, 3, 4, 4}, -std::numeric_limits<double>::infinity());
  x.data<float>()[21] = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = max_pool2d(x, 3, {.stride = 2, .padding = 1}),
               b = max_pool2d(x.to(MemoryFormat::nhwc), 3, {.stride = 2, .padding = 1});
  const auto va = a.to_vector<float>(), vb = b.to_vector<float>();
  for (size_t i = 0; i < va.size(); ++i)
    EXPECT_TRUE(va[i] == vb[i] || (std::isnan(va[i]) && std::isnan(vb[i]))) << i;
}

}  // namespace
}  // namespace brim
