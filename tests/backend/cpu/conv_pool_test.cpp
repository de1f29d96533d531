// The fused convolution + relu + pooling gives what the ops give, and so does its gradient. Numbers
// are small integers: every sum is exact, equal elements are frequent, and results compare as
// equal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "backend/fused/fused_conv.h"
#include "ops/pool/geometry.h"
#include "threads.h"

namespace brim::backend {
namespace {

struct ConvPoolCase {
  int64_t n, c;
  Pair size;  // of x
  int64_t o;
  Pair kernel;
  Conv2dOptions conv;
  Pair window;
  MaxPool2dOptions pool;
  bool relu = true, bias = true;
};

const ConvPoolCase kCases[] = {
    // The networks' usual ones: by positions and by channels.
    {.n = 3, .c = 3, .size = 32, .o = 6, .kernel = 5, .window = 2},
    {.n = 3, .c = 6, .size = 14, .o = 16, .kernel = 5, .window = 2},
    {.n = 13, .c = 2, .size = 28, .o = 3, .kernel = 5, .window = 2},  // parts of images on CUDA
    {.n = 2, .c = 1, .size = 28, .o = 32, .kernel = 3, .conv = {.padding = 1}, .window = 2},
    {.n = 2, .c = 3, .size = {17, 23}, .o = 40, .kernel = {3, 5}, .window = 2},
    {.n = 1, .c = 40, .size = {9, 8}, .o = 33, .kernel = 3, .conv = {.padding = 1}, .window = 2},
    {.n = 33, .c = 2, .size = {9, 12}, .o = 5, .kernel = 2, .window = {2, 3}},
    // Strides, padding, dilation, groups.
    {.n = 2,
     .c = 3,
     .size = {33, 31},
     .o = 7,
     .kernel = 5,
     .conv = {.stride = 2, .padding = 2},
     .window = 2},
    {.n = 2,
     .c = 4,
     .size = {21, 19},
     .o = 24,
     .kernel = 3,
     .conv = {.stride = {3, 2}, .padding = {0, 1}},
     .window = 2},
    {.n = 2,
     .c = 5,
     .size = {20, 22},
     .o = 6,
     .kernel = {3, 2},
     .conv = {.padding = {2, 3}, .dilation = {1, 2}},
     .window = 2},
    {.n = 2,
     .c = 5,
     .size = {20, 22},
     .o = 20,
     .kernel = {3, 4},
     .conv = {.dilation = {3, 1}},
     .window = 2},
    {.n = 2, .c = 6, .size = 12, .o = 9, .kernel = 3, .conv = {.groups = 3}, .window = 2},
    {.n = 2,
     .c = 32,
     .size = 8,
     .o = 32,
     .kernel = 3,
     .conv = {.padding = 1, .groups = 2},
     .window = 2},
    {.n = 2, .c = 8, .size = 10, .o = 8, .kernel = 3, .conv = {.groups = 8}, .window = 2},
    {.n = 2, .c = 20, .size = 7, .o = 12, .kernel = 1, .window = 2},
    {.n = 1, .c = 2, .size = {25, 24}, .o = 3, .kernel = {11, 9}, .window = 2},
    {.n = 1,
     .c = 30,
     .size = {6, 7},
     .o = 18,
     .kernel = {3, 5},
     .conv = {.padding = {5, 4}},
     .window = 2},
    // Windows that overlap, leave the plane, skip elements, or hold one.
    {.n = 2, .c = 3, .size = 20, .o = 6, .kernel = 3, .window = 3, .pool = {.stride = 2}},
    {.n = 2,
     .c = 3,
     .size = 20,
     .o = 32,
     .kernel = 3,
     .window = 3,
     .pool = {.stride = 2, .padding = 1}},
    {.n = 2, .c = 4, .size = {11, 13}, .o = 5, .kernel = 3, .window = 3, .pool = {.padding = 1}},
    {.n = 2,
     .c = 4,
     .size = {12, 14},
     .o = 17,
     .kernel = 3,
     .window = {3, 2},
     .pool = {.ceil_mode = true}},
    {.n = 2,
     .c = 2,
     .size = {16, 15},
     .o = 4,
     .kernel = 3,
     .window = 3,
     .pool = {.stride = 2, .padding = 1, .dilation = 2}},
    {.n = 2, .c = 2, .size = {16, 15}, .o = 4, .kernel = 3, .window = 2, .pool = {.stride = 3}},
    {.n = 2, .c = 2, .size = 15, .o = 4, .kernel = 3, .window = 3},
    {.n = 2, .c = 2, .size = 8, .o = 4, .kernel = 3, .window = 1},
    {.n = 1, .c = 1, .size = 3, .o = 1, .kernel = 2, .window = 2},
    // Without relu, without a bias, without images.
    {.n = 2, .c = 3, .size = 14, .o = 6, .kernel = 5, .window = 2, .relu = false},
    {.n = 2, .c = 3, .size = 14, .o = 20, .kernel = 5, .window = 2, .relu = false, .bias = false},
    {.n = 2, .c = 3, .size = 14, .o = 6, .kernel = 5, .window = 2, .bias = false},
    {.n = 0, .c = 3, .size = 14, .o = 6, .kernel = 5, .window = 2},
};

/// Small integers as f32.
Tensor integers(const Shape& shape, int64_t low, int64_t high) {
  return floor(rand(shape) * static_cast<double>(high - low + 1)) + static_cast<double>(low);
}

ConvPool conv_pool_of(const ConvPoolCase& c) {
  const auto out = [](int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                      int64_t dilation) {
    return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const Conv2dOptions& o = c.conv;
  ConvGeometry conv{.n = c.n,
                    .c = c.c,
                    .h = c.size.h,
                    .w = c.size.w,
                    .o = c.o,
                    .kh = c.kernel.h,
                    .kw = c.kernel.w,
                    .oh = out(c.size.h, c.kernel.h, o.stride.h, o.padding.h, o.dilation.h),
                    .ow = out(c.size.w, c.kernel.w, o.stride.w, o.padding.w, o.dilation.w),
                    .stride = o.stride,
                    .padding = o.padding,
                    .dilation = o.dilation,
                    .groups = o.groups};
  const PoolGeometry pool = ops::pool_geometry("test", zeros(conv.y_shape()), c.window,
                                               c.pool.stride == Pair(0) ? c.window : c.pool.stride,
                                               c.pool.padding, c.pool.dilation, c.pool.ceil_mode);
  return {conv, pool, c.relu};
}

struct Inputs {
  Tensor x, weight, bias, dy;
};

Inputs inputs(const ConvPoolCase& c) {
  const ConvPool g = conv_pool_of(c);
  return {integers(g.conv.x_shape(), -3, 3), integers(g.conv.weight_shape(), -2, 2),
          c.bias ? integers({c.o}, -4, 4) : Tensor(),
          integers({c.n, c.o, g.pool.oh, g.pool.ow}, -2, 2)};
}

struct ConvPoolResults {
  Tensor y, dx, dw, db;
};

ConvPoolResults eager(const ConvPoolCase& c, Inputs in) {
  in.x = in.x.clone().set_requires_grad();
  in.weight = in.weight.clone().set_requires_grad();
  if (c.bias) in.bias = in.bias.clone().set_requires_grad();
  Tensor y = conv2d(in.x, in.weight, in.bias, c.conv);
  if (c.relu) y = relu(y);
  y = max_pool2d(y, c.window, c.pool);
  y.backward(in.dy);
  return {y.detach(), in.x.grad(), in.weight.grad(), c.bias ? in.bias.grad() : Tensor()};
}

Tensor formatted(const Shape& shape, DType dtype, MemoryFormat format) {
  return Tensor::empty(shape, dtype, Device::cpu()).to(format);
}

/// All tensors but the weights in `format`; outputs begin as something else than their results.
ConvPoolResults fused(const ConvPoolCase& c, const Inputs& in, MemoryFormat format,
                      bool want_all = true, Device device = Device::cpu()) {
  static const ConvPoolKernel forward("conv2d_relu_pool");
  static const ConvPoolGradKernel backward("conv2d_relu_pool_grad");
  const ConvPool g = conv_pool_of(c);
  const auto there = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  const Tensor x = there(in.x.to(format)), dy = there(in.dy.to(format));
  const Tensor weight = there(in.weight), bias = there(in.bias);
  Tensor y = there(formatted(in.dy.shape(), DType::f32, format)).fill_(7);
  Tensor places = there(formatted(in.dy.shape(), DType::u8, format)).fill_(3);
  forward(device, DType::f32, x, weight, bias, y, places, g);
  Tensor dx, dw = there(full(in.weight.shape(), 7)), db;
  if (want_all) dx = there(formatted(in.x.shape(), DType::f32, format)).fill_(7);
  if (want_all && c.bias) db = there(full({c.o}, 7));
  backward(device, DType::f32, x, weight, dy, places, dx, dw, db, g);
  return {y, dx, dw, db};
}

void expect_equal(const Tensor& a, const Tensor& b, const char* what) {
  ASSERT_EQ(a.defined(), b.defined()) << what;
  if (!a.defined()) return;
  const auto got = a.to(Device::cpu()).contiguous().to_vector<float>();
  const auto want = b.to(Device::cpu()).contiguous().to_vector<float>();
  ASSERT_EQ(got.size(), want.size()) << what;
  int wrong = 0;
  for (size_t i = 0; i < got.size() && wrong < 3; ++i)
    if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]))) {
      ++wrong;
      ADD_FAILURE() << what << "[" << i << "]: " << got[i] << ", expected " << want[i];
    }
}

void expect_equal(const ConvPoolResults& got, const ConvPoolResults& want) {
  expect_equal(got.y, want.y, "y");
  expect_equal(got.dx, want.dx, "dx");
  expect_equal(got.dw, want.dw, "dw");
  expect_equal(got.db, want.db, "db");
}

class ConvPoolTest : public testing::TestWithParam<ConvPoolCase> {};
INSTANTIATE_TEST_SUITE_P(Geometries, ConvPoolTest, testing::ValuesIn(kCases));

TEST_P(ConvPoolTest, EqualsTheOps) {
  manual_seed(1);
  const ConvPoolCase& c = GetParam();
  const Inputs in = inputs(c);
  const ConvPoolResults want = eager(c, in);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
    expect_equal(fused(c, in, format), want);
}

TEST_P(ConvPoolTest, EqualsTheOpsOnCuda) {
  if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  manual_seed(5);
  const ConvPoolCase& c = GetParam();
  const Inputs in = inputs(c);
  const ConvPoolResults want = eager(c, in);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
    expect_equal(fused(c, in, format, true, Device::cuda(0)), want);
}

TEST(ConvPool, RepeatsItselfOnCuda) {
  if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  const Device cuda = Device::cuda(0);
  manual_seed(6);
  const ConvPoolCase c{.n = 13, .c = 2, .size = 20, .o = 3, .kernel = 3, .window = 2};
  Inputs in = inputs(c);
  in.x = randn(in.x.shape());
  const ConvPoolResults one = fused(c, in, MemoryFormat::nchw, true, cuda);
  expect_equal(fused(c, in, MemoryFormat::nchw, true, cuda), one);
  const ConvPoolResults some = fused(c, in, MemoryFormat::nchw, false, cuda);
  EXPECT_FALSE(some.dx.defined() || some.db.defined());
  expect_equal(some.dw, one.dw, "dw");
  in.x.data<float>()[in.x.numel() / 2] = std::nanf("");
  expect_equal(fused(c, in, MemoryFormat::nchw, false, cuda).y.to(Device::cpu()) * 0,
               eager(c, in).y * 0, "the places of NaN");
}

TEST_P(ConvPoolTest, GivesOnlyTheGradientsAskedFor) {
  manual_seed(2);
  const ConvPoolCase& c = GetParam();
  const Inputs in = inputs(c);
  const ConvPoolResults some = fused(c, in, MemoryFormat::nchw, false);
  EXPECT_FALSE(some.dx.defined() || some.db.defined());
  expect_equal(some.dw, eager(c, in).dw, "dw");
}

TEST_P(ConvPoolTest, ThreadsDoNotChangeABit) {
  manual_seed(3);
  const ConvPoolCase& c = GetParam();
  const ConvPool g = conv_pool_of(c);
  const Inputs in = {randn(g.conv.x_shape()), randn(g.conv.weight_shape()),
                     c.bias ? randn({c.o}) : Tensor(), randn({c.n, c.o, g.pool.oh, g.pool.ow})};
  const auto fused_on = [&](int threads) {
    const tests::Threads guard(threads);
    return fused(c, in, MemoryFormat::nchw);
  };
  expect_equal(fused_on(4), fused_on(1));
}

TEST_P(ConvPoolTest, KeepsNanAndInfinity) {
  manual_seed(4);
  const ConvPoolCase& c = GetParam();
  Inputs in = inputs(c);
  const float special[] = {std::nanf(""), std::numeric_limits<float>::infinity()};
  float* x = in.x.data<float>();
  for (int64_t i = 0; i < in.x.numel(); i += 37) x[i] = special[i % 2];
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
    expect_equal(fused(c, in, format, false).y, eager(c, in).y, "y");
}

/// Ones where a NaN of dy reaches the convolution's result, through windows and ReLU as they are.
Tensor nans_behind_pool(const ConvPoolCase& c, const Inputs& in) {
  Tensor z = conv2d(in.x, in.weight, in.bias, c.conv).detach().set_requires_grad();
  max_pool2d(c.relu ? relu(z) : z, c.window, c.pool).backward(in.dy);
  return isnan(z.grad()).to(f32);
}

/// How many of them reach each gradient: gradients of a convolution of ones.
ConvPoolResults reached_from(const ConvPoolCase& c, const Inputs& in, const Tensor& nans) {
  const Tensor x = ones_like(in.x).set_requires_grad();
  const Tensor w = ones_like(in.weight).set_requires_grad();
  const Tensor bias = c.bias ? zeros({c.o}).set_requires_grad() : Tensor();
  conv2d(x, w, bias, c.conv).backward(nans);
  return {Tensor(), x.grad(), w.grad(), c.bias ? bias.grad() : Tensor()};
}

/// NaN where one arrives, else as without them. Where it meets the zeros around an image or behind
/// a row of weights, a product may give more of them, but only in slices (images or channels) that
/// have one.
void expect_nan_or(const Tensor& got, const Tensor& clean, const Tensor& reached,
                   const Tensor& in_slices, const char* what) {
  ASSERT_EQ(got.defined(), clean.defined()) << what;
  if (!got.defined() || got.numel() == 0) return;
  const auto found = got.contiguous().to_vector<float>(), want = clean.to_vector<float>();
  const auto count = reached.to_vector<float>(), in_slice = in_slices.to_vector<float>();
  const size_t slice = found.size() / in_slice.size();
  int wrong = 0;
  for (size_t i = 0; i < found.size(); ++i)
    wrong += std::isnan(found[i]) ? in_slice[i / slice] == 0 : count[i] > 0 || found[i] != want[i];
  EXPECT_EQ(wrong, 0) << what;
}

TEST_P(ConvPoolTest, LosesNoNanOfGradients) {
  manual_seed(4);
  const ConvPoolCase& c = GetParam();
  Inputs in = inputs(c), clean = in;
  clean.dy = in.dy.clone();
  for (int64_t i = 0; i < in.dy.numel(); i += 37) {
    in.dy.data<float>()[i] = std::nanf("");
    clean.dy.data<float>()[i] = 0;
  }
  const Tensor nans = nans_behind_pool(c, in);
  const Tensor in_images = sum(nans, {1, 2, 3}), in_channels = sum(nans, {0, 2, 3});
  const ConvPoolResults want = eager(c, clean), reached = reached_from(c, in, nans);
  const auto check = [&](const ConvPoolResults& got, const char* by) {
    SCOPED_TRACE(by);
    expect_nan_or(got.dx, want.dx, reached.dx, in_images, "dx");
    expect_nan_or(got.dw, want.dw, reached.dw, in_channels, "dw");
    expect_nan_or(got.db, want.db, reached.db, in_channels, "db");
  };
  check(eager(c, in), "the ops");
  check(fused(c, in, MemoryFormat::nchw), "the kernel, nchw");
  check(fused(c, in, MemoryFormat::nhwc), "the kernel, nhwc");
}

TEST(ConvPool, PlacesCountInTheWindow) {
  static const ConvPoolKernel forward("conv2d_relu_pool");
  // One channel, the identity: x itself is pooled.
  const Tensor x = Tensor::from<float>({0, 5, -1, -2,  //
                                        5, 0, -3, 0,   //
                                        1, 2, NAN, 1,  //
                                        3, 4, 1, 1},
                                       {1, 1, 4, 4});
  const ConvPoolCase c{.n = 1, .c = 1, .size = 4, .o = 1, .kernel = 1, .window = 2};
  Tensor y = zeros({1, 1, 2, 2}), places = zeros({1, 1, 2, 2}, {.dtype = DType::u8});
  forward(Device::cpu(), DType::f32, x, ones({1, 1, 1, 1}), Tensor(), y, places, conv_pool_of(c));
  EXPECT_EQ(places.to_vector<uint8_t>(), (std::vector<uint8_t>{1, kNoIndex, 3, 0}));  // NaN wins
  ConvPool plain = conv_pool_of(c);
  plain.relu = false;
  forward(Device::cpu(), DType::f32, x, ones({1, 1, 1, 1}), Tensor(), y, places, plain);
  EXPECT_EQ(places.to_vector<uint8_t>(), (std::vector<uint8_t>{1, 3, 3, 0}));
}

}  // namespace
}  // namespace brim::backend
