// CUDA's poolings against the CPU's, to the bit: both memory formats, whole packs of channels and
// what is left, sizes counted in 32 and in 64 bits (emulated, from 20000 elements on), ties, NaN
// and infinities. Skipped without a CUDA device (BRIM_BACKEND_PATH may name the emulated one).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>

#include "backend/expect_close.h"

namespace brim {
namespace {

class CudaPool : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(23);
  }
};

using Pooling = std::function<Tensor(const Tensor&)>;

/// What pooling gives, its gradient, and the gradient of that by dy.
struct PoolResults {
  Tensor y, dx, ddy;
};

PoolResults results(const Pooling& pool, const Tensor& images, const Tensor& dy0, const Tensor& v) {
  const Tensor x = images.detach().set_requires_grad();
  const Tensor dy = dy0.detach().set_requires_grad();
  const Tensor y = pool(x);
  const Tensor dx = autograd::grad({&y, 1}, {&x, 1}, {&dy, 1}, {.create_graph = true})[0];
  dx.backward(v);
  return {y.detach(), dx.detach(), dy.grad()};
}

/// Elements that differ by more than `tolerance` of the CPU's; 0: in a bit, but for those of NaN.
void expect_same_pooling(const Tensor& found, const Tensor& expected, double tolerance,
                         const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  ASSERT_EQ(found.strides(), expected.strides()) << what;
  const std::vector<double> a = numbers(found), b = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (tolerance == 0)
      ASSERT_TRUE(a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]))
          << what << ", element " << i << ": " << a[i] << " instead of " << b[i];
    else
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << ", element " << i;
  }
}

/// Images with many ties.
Tensor images(const Shape& shape, DType dtype) { return randint(-3, 4, shape).to(dtype); }

/// A NaN, infinities and -0 here and there.
Tensor with_odd_ones(const Tensor& t) {
  Tensor wide = t.to(f64);
  double* v = wide.data<double>();
  for (int64_t i = 0; i < wide.numel(); i += 5)
    v[i] = i % 7 == 0 ? std::nan("") : i % 3 == 0 ? -std::numeric_limits<double>::infinity() : -0.0;
  return wide.to(t.dtype());
}

constexpr DType kDTypes[] = {f32, f64, f16, bf16};
constexpr MemoryFormat kFormats[] = {MemoryFormat::nchw, MemoryFormat::nhwc};

/// y and the gradients there as here, where they repeat the CPU's arithmetic (`exactly`) or round
/// sums in another place.
void check_pooling(const Pooling& pool, const Tensor& x, bool exactly) {
  const Tensor v = randn(x.shape()).to(x.dtype());
  const Tensor dy = randn(pool(x).shape()).to(x.dtype());
  const double rounding = x.dtype() == f64 ? 1e-14 : x.dtype() == f32 ? 1e-6 : 1e-2;
  for (const MemoryFormat format : kFormats) {
    const Tensor here = x.to(format);
    const PoolResults expected = results(pool, here, dy, v);
    const Device cuda = Device::cuda(0);
    const PoolResults found = results(pool, here.to(cuda), dy.to(cuda), v.to(cuda));
    const std::string what = std::string(name(x.dtype())) + " " + x.shape().str() +
                             (format == MemoryFormat::nhwc ? " nhwc" : " nchw");
    SCOPED_TRACE(what);
    expect_same_pooling(found.y, expected.y, exactly ? 0 : rounding, "y");
    expect_same_pooling(found.dx, expected.dx, exactly ? 0 : rounding, "dx");
    expect_same_pooling(found.ddy, expected.ddy, exactly ? 0 : rounding, "ddy");
  }
}

const Shape kPoolShapes[] = {{2, 8, 9, 8},
                             {1, 16, 7, 9},
                             {3, 5, 8, 7},
                             {2, 40, 17, 19} /* 64 bits */,
                             {1, 1, 150, 140} /* too */,
                             {4, 24, 6, 6},
                             {0, 8, 9, 8}};

const Pooling kMax[] = {
    [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); },
    [](const Tensor& x) { return max_pool2d(x, 2); },
    [](const Tensor& x) {
      return max_pool2d(x, {2, 3}, {.stride = 1, .dilation = 2, .ceil_mode = true});
    },
    [](const Tensor& x) {
      return max_pool2d(x, {5, 4}, {.stride = {1, 3}, .padding = 2, .dilation = {1, 2}});
    },
    // Windows with gaps between them, and one that lies in the padding but for a corner.
    [](const Tensor& x) { return max_pool2d(x, 2, {.stride = 4, .padding = 1}); },
    [](const Tensor& x) {
      return max_pool2d(x, 3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true});
    },
    // Tensors that are small, with steps that 32 bits do not count when emulated.
    [](const Tensor& x) {
      return max_pool2d(x, {3, 1}, {.stride = {2, 25000}});
    },
};

TEST_F(CudaPool, LargestElementsAndTheirGradients) {
  for (const Pooling& pool : kMax)
    for (const Shape& shape : kPoolShapes)
      for (const DType dtype : kDTypes) {
        check_pooling(pool, images(shape, dtype), true);
        if (HasFailure()) return;
      }
}

TEST_F(CudaPool, LargestOfNaNAndInfinity) {
  for (const Pooling& pool : kMax)
    for (const DType dtype : kDTypes)
      check_pooling(pool, with_odd_ones(images({2, 8, 9, 8}, dtype)), true);
  const double lowest = -std::numeric_limits<double>::infinity();
  for (const DType dtype : kDTypes)
    check_pooling(kMax[0], full({1, 8, 5, 5}, lowest, {.dtype = dtype}), true);
}

struct AvgCase {
  Pooling pool;
  bool overlaps;
};
const AvgCase kAvg[] = {
    {[](const Tensor& x) { return avg_pool2d(x, 2); }, false},
    {[](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); }, true},
    {[](const Tensor& x) {
       return avg_pool2d(x, {3, 2}, {.padding = 1, .ceil_mode = true, .count_include_pad = false});
     },
     false},
    {[](const Tensor& x) {
       return avg_pool2d(x, 3, {.stride = 1, .padding = 1, .count_include_pad = false});
     },
     true},
    {[](const Tensor& x) {
       return avg_pool2d(x, 3, {.stride = {4, 25000}});
     },
     false},
    {[](const Tensor& x) { return adaptive_avg_pool2d(x, 1); }, false},
    {[](const Tensor& x) {
       return adaptive_avg_pool2d(x, {3, 5});
     },
     true},
    {[](const Tensor& x) {
       return adaptive_avg_pool2d(x, {2, 23});  // more than there are
     },
     true},
};

TEST_F(CudaPool, MeansAndTheirGradients) {
  for (const AvgCase& c : kAvg)
    for (const Shape& shape : kPoolShapes)
      for (const DType dtype : kDTypes) {
        check_pooling(c.pool, images(shape, dtype), false);
        if (HasFailure()) return;
      }
}

// Gradients where windows do not overlap have nothing to sum: the CPU's to the bit.
TEST_F(CudaPool, SharesOfGradientsAreTheCpus) {
  const Device cuda = Device::cuda(0);
  for (const AvgCase& c : kAvg)
    for (const Shape& shape : kPoolShapes)
      for (const DType dtype : kDTypes)
        for (const MemoryFormat format : kFormats) {
          if (c.overlaps) continue;
          const Tensor from = images(shape, dtype).to(format);
          const Tensor here = from.detach().set_requires_grad();
          const Tensor there = from.to(cuda).detach().set_requires_grad();
          const Tensor y = c.pool(here), dy = randn(y.shape()).to(dtype);
          y.backward(dy);
          c.pool(there).backward(dy.to(cuda));
          expect_same_pooling(there.grad(), here.grad(), 0, shape.str().c_str());
          if (HasFailure()) return;
        }
}

// Channels that packs hold, at addresses where there are none.
TEST_F(CudaPool, ImagesThatBeginAmidAnAccess) {
  const Shape shape = {2, 8, 6, 5};
  for (const DType dtype : kDTypes)
    for (const Pooling& pool : {kMax[0], kAvg[0].pool, kAvg[5].pool}) {
      const Tensor all = images({1 + 2 * 8 * 6 * 5}, dtype);
      const auto amid = [&](const Tensor& t) {
        return t.alias(shape, strides_of(shape, MemoryFormat::nhwc), 1);
      };
      const Tensor there = all.to(Device::cuda(0));
      expect_same_pooling(pool(amid(there)), pool(amid(all)),
                          dtype == f64 || dtype == f32 ? 1e-6 : 1e-2, name(dtype).data());
    }
}

}  // namespace
}  // namespace brim
