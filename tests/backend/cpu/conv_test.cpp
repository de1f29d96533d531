// The two ways to convolve on the CPU give the same numbers, and neither depends on the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include "backend/cpu/conv/conv_col2im.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/cpu/conv/conv_nhwc.h"
#include "backend/cpu/conv/conv_winograd.h"
#include "threads.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

ConvGeometry geometry(int64_t n, int64_t c, int64_t size, int64_t o, int64_t k, int64_t stride = 1,
                      int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1) {
  const int64_t out = (size + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
  return {n, c, size, size, o, k, k, out, out, stride, padding, dilation, groups};
}

const ConvGeometry kGeometries[] = {
    geometry(3, 16, 9, 32, 3),
    geometry(4, 16, 8, 16, 3, 1, 1),
    geometry(5, 32, 7, 16, 3, 2, 1),
    geometry(2, 16, 8, 16, 3, 2, 0),  // the stride skips the last row
    geometry(2, 16, 11, 32, 3, 1, 2, 2),
    geometry(6, 16, 6, 48, 1, 2),
    geometry(2, 32, 6, 32, 3, 1, 1, 1, 2),
    geometry(3, 16, 6, 16, 3, 1, 1, 1, 16),
    geometry(17, 3, 8, 32, 5, 1, 2),
    geometry(2, 5, 7, 7, 3, 1, 1),
};

const ConvGeometry kNhwcGeometries[] = {
    geometry(1, 32, 4, 32, 3, 1, 1),    // one tile
    geometry(2, 48, 13, 80, 3, 1, 1),   // tiles past the border, narrow panels
    geometry(3, 32, 7, 64, 3, 1, 0),    // no padding
    geometry(2, 32, 9, 32, 3, 1, 2),    // more padding than half the kernel
    geometry(1, 64, 40, 32, 3, 1, 1),   // more tiles than channels
    geometry(3, 160, 8, 144, 3, 1, 1),  // fewer tiles than channels
    geometry(3, 3, 17, 64, 7, 2, 3),
    geometry(2, 16, 9, 32, 3, 2, 1),
    geometry(2, 16, 8, 48, 3, 2, 0),  // the stride skips the last row
    geometry(2, 32, 7, 16, 1, 2),
    geometry(5, 16, 6, 16, 1),
    geometry(2, 16, 11, 32, 3, 1, 2, 2),
    geometry(1, 5, 9, 16, 5, 3, 4),
    geometry(1, 16, 1, 16, 1),
    geometry(2, 64, 128, 64, 3, 2, 1),  // the weight's gradient by more than one block of pixels
};

const ConvGeometry kFewChannels[] = {
    geometry(2, 3, 37, 20, 7, 2, 3),
    geometry(1, 1, 90, 33, 3, 1, 1),   // bands of rows
    geometry(1, 4, 130, 8, 11, 4, 2),  // the stride skips the last row
    geometry(2, 5, 9, 7, 2, 3),        // pixels between the windows
    geometry(2, 2, 6, 9, 5, 2, 6),     // windows in the padding alone
    geometry(2, 3, 19, 17, 3, 2, 3, 2),
    geometry(3, 24, 8, 10, 1, 2),
    geometry(1, 3, 1, 4, 3, 2, 1),
    {2, 3, 20, 31, 5, 3, 6, 8, 27, Pair(3, 1), Pair(2, 1), Pair(1, 1), 1},
    {1, 2, 13, 11, 4, 4, 2, 9, 6, Pair(1, 2), Pair(1, 0), Pair(2, 1), 1},
    {1, 1, 3, 900, 8, 1, 300, 3, 301, Pair(1, 2), Pair(0, 0), Pair(1, 1), 1},  // runs of pixels
};

struct Pass {
  ConvPass kind;
  Shape a, b, out;
};

std::vector<Pass> passes(const ConvGeometry& g) {
  return {{ConvPass::forward, g.x_shape(), g.weight_shape(), g.y_shape()},
          {ConvPass::grad_x, g.y_shape(), g.weight_shape(), g.x_shape()},
          {ConvPass::grad_weight, g.x_shape(), g.y_shape(), g.weight_shape()}};
}

Tensor run_direct(const Pass& p, const ConvGeometry& g, const Tensor& a, const Tensor& b) {
  const Context context = Context::current(Device::cpu());
  Tensor out = Tensor::empty(p.out);
  const float *from = a.data<float>(), *with = b.data<float>();
  if (p.kind == ConvPass::forward)
    conv_direct<float>(context, from, with, {}, out.data<float>(), g);
  else if (p.kind == ConvPass::grad_x)
    conv_direct_grad_x<float>(context, from, with, out.data<float>(), g);
  else
    conv_direct_grad_weight<float>(context, from, with, out.data<float>(), g);
  return out;
}

Tensor run_dnnl(const Pass& p, const ConvGeometry& g, const Tensor& a, const Tensor& b,
                const Tensor& bias = {}) {
  Tensor out = Tensor::empty(p.out);
  conv_dnnl(Context::current(Device::cpu()), p.kind, g, a.data<float>(), b.data<float>(),
            {.bias = bias.defined() ? bias.data<float>() : nullptr}, out.data<float>());
  return out;
}

using NhwcConv = void (*)(const Context&, ConvPass, const ConvGeometry&, const float*, const float*,
                          const ConvEpilogue<float>&, float*);

/// The operands become nhwc, and so does the result unless it is a weight.
Tensor run_nhwc(NhwcConv conv, const Pass& p, const ConvGeometry& g, const Tensor& a,
                const Tensor& b) {
  const bool to_weight = p.kind == ConvPass::grad_weight;
  const Tensor from = a.to(MemoryFormat::nhwc), with = to_weight ? b.to(MemoryFormat::nhwc) : b;
  Tensor out = Tensor::empty(p.out);
  conv(Context::current(Device::cpu()), p.kind, g, static_cast<const float*>(from.raw()),
       static_cast<const float*>(with.raw()), {}, out.data<float>());
  return to_weight ? out : out.alias(p.out, strides_of(p.out, MemoryFormat::nhwc), 0).contiguous();
}

std::string name(const Pass& p, const ConvGeometry& g) {
  return p.a.str() + " x " + p.b.str() + " -> " + p.out.str() + ", stride " +
         std::to_string(g.stride.h) + ", padding " + std::to_string(g.padding.h);
}

/// Largest difference over the largest number.
double relative_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - y[i]));
    scale = std::max(scale, std::abs(static_cast<double>(y[i])));
  }
  return worst / scale;
}

TEST(Conv, NhwcEqualsDirect) {
  for (const ConvGeometry& g : kNhwcGeometries)
    for (const Pass& p : passes(g)) {
      const Tensor a = randn(p.a), b = randn(p.b);
      const Tensor expected = run_direct(p, g, a, b);
      if (winograd_wins(p.kind, g)) {
        EXPECT_LT(relative_difference(run_nhwc(&conv_winograd, p, g, a, b), expected), 2e-5)
            << name(p, g);
      }
      if (conv_nhwc_supports(p.kind, g)) {
        EXPECT_LT(relative_difference(run_nhwc(&conv_nhwc, p, g, a, b), expected), 2e-6)
            << name(p, g);
      }
    }
}

TEST(Conv, NhwcDoesNotDependOnThreads) {
  for (const ConvGeometry& g : kNhwcGeometries)
    for (const Pass& p : passes(g))
      for (const bool winograd : {false, true}) {
        if (!(winograd ? winograd_wins(p.kind, g) : conv_nhwc_supports(p.kind, g))) continue;
        const Tensor a = randn(p.a), b = randn(p.b);
        std::vector<std::vector<float>> results;
        for (const int count : {1, 2, 3}) {
          const tests::Threads guard(count);
          results.push_back(
              run_nhwc(winograd ? &conv_winograd : &conv_nhwc, p, g, a, b).to_vector<float>());
        }
        EXPECT_EQ(results[0], results[1]) << name(p, g);
        EXPECT_EQ(results[0], results[2]) << name(p, g);
      }
}

TEST(Conv, Col2imEqualsDirect) {
  const Context context = Context::current(Device::cpu());
  for (const ConvGeometry& g : kFewChannels) {
    const Pass p = passes(g)[1];
    const Tensor dy = randn(p.a), w = randn(p.b), expected = run_direct(p, g, dy, w);
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const Tensor from = dy.to(format);
      std::vector<std::vector<float>> results;
      for (const int count : {1, 2, 3}) {
        const tests::Threads guard(count);
        Tensor dx = full(p.out, 7).to(format);
        conv_col2im_grad_x(context, format == MemoryFormat::nhwc, g,
                           static_cast<const float*>(from.raw()), w.data<float>(),
                           static_cast<float*>(dx.raw()));
        EXPECT_LT(relative_difference(dx.contiguous(), expected), 2e-6) << name(p, g);
        results.push_back(dx.contiguous().to_vector<float>());
      }
      EXPECT_EQ(results[0], results[1]) << name(p, g);
      EXPECT_EQ(results[0], results[2]) << name(p, g);
    }
  }
}

TEST(Conv, Col2imInDouble) {
  for (const bool nhwc : {false, true}) {
    const MemoryFormat format = nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw;
    const Tensor x = randn({2, 5, 17, 13}).to(f64).to(format).detach().set_requires_grad(true);
    const Tensor w = randn({20, 5, 3, 4}).to(f64);
    const Tensor y = conv2d(x, w, {}, {.stride = Pair(2, 3), .padding = Pair(1, 2)});
    const Tensor dy = randn(y.shape()).to(f64);
    y.backward(dy.to(format));
    // The same sums out of f32's direct way, far from f64's rounding but of the same numbers.
    const ConvGeometry g = {2, 5, 17, 13, 20, 3, 4, 9, 5, Pair(2, 3), Pair(1, 2), Pair(1), 1};
    EXPECT_TRUE(conv_col2im_wins<double>(ConvPass::grad_x, nhwc, g));
    const Pass p = passes(g)[1];
    const Tensor expected = run_direct(p, g, dy.to(f32).contiguous(), w.to(f32));
    EXPECT_LT(relative_difference(x.grad().to(f32).contiguous(), expected), 2e-6);
  }
}

/// Row-major activations that are copied to nhwc, through the op.
TEST(Conv, WeightsGradientOfFewPixels) {
  for (const ConvGeometry& g : {geometry(2, 128, 4, 256, 1), geometry(2, 64, 6, 128, 3, 2, 1)}) {
    ASSERT_TRUE(conv_nhwc_wins(ConvPass::grad_weight, g));
    const Tensor x = randn(g.x_shape());
    const Tensor w = randn(g.weight_shape()).set_requires_grad(true);
    const Tensor y = conv2d(x, w, {}, {.stride = g.stride, .padding = g.padding});
    const Tensor dy = randn(y.shape());
    y.backward(dy);
    EXPECT_LT(relative_difference(w.grad(), run_direct(passes(g)[2], g, x, dy)), 2e-6);
  }
}

TEST(Conv, StridesBeyondTheImage) {
  const Tensor w = randn({4, 3, 3, 3}), x = randn({1, 3, 7, 7}).set_requires_grad(true);
  const Tensor expected = conv2d(x, w, {}, {.stride = 7});
  for (const int64_t stride : {int64_t{1} << 20, int64_t{1} << 31, int64_t{1} << 62}) {
    const Tensor y = conv2d(x, w, {}, {.stride = stride});
    EXPECT_EQ(y.to_vector<float>(), expected.to_vector<float>());
    y.sum().backward();
    EXPECT_EQ(conv1d(x.select(0, 0).select(0, 0).unsqueeze(0).detach(), randn({2, 7, 3}), {},
                     {.stride = stride})
                  .shape(),
              Shape({1, 2, 1}));
  }
}

TEST(Conv, NhwcAddsBias) {
  for (const ConvGeometry& g : {geometry(2, 32, 8, 48, 3, 1, 1), geometry(2, 5, 7, 16, 3, 2, 1)}) {
    const Tensor x = randn(g.x_shape()), w = randn(g.weight_shape()), bias = randn({g.o});
    Conv2dOptions options;
    options.stride = g.stride;
    options.padding = g.padding;
    const Tensor y = conv2d(x.to(MemoryFormat::nhwc), w, bias, options);
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::nhwc));
    EXPECT_LT(relative_difference(y, conv2d(x, w, bias, options)), 2e-5);
  }
}

TEST(Conv, NhwcKeepsNaN) {
  const ConvGeometry g = geometry(2, 32, 12, 32, 3, 1, 1);
  Tensor x = zeros(g.x_shape());
  x.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = conv2d(x.to(MemoryFormat::nhwc), randn(g.weight_shape()), {}, {.padding = 1});
  const auto values = y.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[4]) && std::isnan(values[5]) && std::isnan(values[6]));
  EXPECT_FALSE(std::isnan(values.back()));
}

/// Everything without an nhwc kernel: groups, f64, odd channels.
TEST(Conv, NhwcGradientsOfAnyGeometry) {
  for (const ConvGeometry& g : kGeometries)
    for (const DType dtype : {DType::f32, DType::f64}) {
      std::vector<Tensor> results[2];
      const Tensor x = randn(g.x_shape(), {.dtype = dtype}),
                   w = randn(g.weight_shape(), {.dtype = dtype}),
                   dy = randn(g.y_shape(), {.dtype = dtype});
      for (const bool nhwc : {false, true}) {
        const MemoryFormat format = nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw;
        Tensor from = x.clone().to(format), weight = w.clone();
        from.set_requires_grad(true);
        weight.set_requires_grad(true);
        const Tensor y = conv2d(
            from, weight, {},
            {.stride = g.stride, .padding = g.padding, .dilation = g.dilation, .groups = g.groups});
        sum(y * dy).backward();
        results[nhwc] = {y.detach(), from.grad(), weight.grad()};
      }
      for (size_t i = 0; i < 3; ++i)
        EXPECT_LT(relative_difference(results[1][i].to(DType::f32), results[0][i].to(DType::f32)),
                  2e-5);
    }
}

TEST(Conv, OneDnnEqualsDirect) {
#if !BRIM_HAVE_DNNL
  GTEST_SKIP() << "built without oneDNN";
#endif
  manual_seed(1);
  for (const ConvGeometry& g : kGeometries)
    for (const Pass& p : passes(g)) {
      const Tensor a = randn(p.a), b = randn(p.b);
      EXPECT_LT(relative_difference(run_dnnl(p, g, a, b), run_direct(p, g, a, b)), 2e-6)
          << "pass " << static_cast<int>(p.kind) << " x " << g.x_shape().str() << " weight "
          << g.weight_shape().str();
    }
}

TEST(Conv, OneDnnAddsTheBias) {
#if !BRIM_HAVE_DNNL
  GTEST_SKIP() << "built without oneDNN";
#endif
  manual_seed(2);
  const ConvGeometry g = kGeometries[0];
  const Pass p = passes(g)[0];
  const Tensor a = randn(p.a), b = randn(p.b), bias = randn({g.o});
  Tensor expected = run_direct(p, g, a, b);
  expected.add_(bias.reshape({1, g.o, 1, 1}));
  EXPECT_LT(relative_difference(run_dnnl(p, g, a, b, bias), expected), 2e-6);
}

TEST(Conv, ThreadsDoNotChangeABit) {
  manual_seed(3);
  for (const ConvGeometry& g : {geometry(32, 16, 20, 32, 3, 1, 1), geometry(24, 16, 20, 32, 3, 2)})
    for (const Pass& p : passes(g)) {
      const Tensor a = randn(p.a), b = randn(p.b);
      const auto on_threads = [](int threads, const auto& run) {
        const tests::Threads guard(threads);
        return run().template to_vector<float>();
      };
      const auto direct = [&] { return run_direct(p, g, a, b); };
      EXPECT_EQ(on_threads(4, direct), on_threads(1, direct));
#if BRIM_HAVE_DNNL
      const auto dnnl = [&] { return run_dnnl(p, g, a, b); };
      EXPECT_EQ(on_threads(4, dnnl), on_threads(1, dnnl));
#endif
    }
}

TEST(Conv, TheChoiceFollowsTheShape) {
#if BRIM_HAVE_DNNL
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(4, 3, 32, 6, 5)));
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 3, 32, 6, 5)));
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(4, 64, 56, 64, 3, 1, 1)));
  EXPECT_TRUE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 64, 56, 64, 3, 1, 1)));
  EXPECT_TRUE(dnnl_conv_wins(ConvPass::forward, geometry(4, 512, 7, 512, 3, 1, 1)));
  EXPECT_TRUE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 32, 14, 32, 3, 1, 1, 1, 32)));
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 32, 14, 32, 7, 1, 3, 1, 32)));
#endif
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(0, 512, 7, 512, 3, 1, 1)));
  EXPECT_TRUE(conv_nhwc_wins(ConvPass::grad_weight, geometry(4, 512, 7, 2048, 1)));
  EXPECT_FALSE(conv_nhwc_wins(ConvPass::grad_weight, geometry(4, 64, 56, 256, 1)));
  EXPECT_FALSE(conv_nhwc_wins(ConvPass::forward, geometry(4, 512, 7, 2048, 1)));
  constexpr ConvPass kToX = ConvPass::grad_x;
  EXPECT_TRUE(conv_col2im_wins<float>(kToX, false, geometry(4, 3, 224, 64, 7, 2, 3)));
  EXPECT_TRUE(conv_col2im_wins<float>(kToX, true, geometry(4, 3, 224, 64, 3, 1, 1)));
  EXPECT_FALSE(conv_col2im_wins<float>(kToX, false, geometry(4, 3, 32, 64, 3, 1, 1)));
  EXPECT_FALSE(conv_col2im_wins<float>(kToX, false, geometry(4, 20, 32, 1, 5, 2)));
  EXPECT_FALSE(conv_col2im_wins<float>(kToX, true, geometry(4, 64, 32, 20, 3, 2)));
  EXPECT_TRUE(conv_col2im_wins<float>(kToX, false, geometry(4, 64, 32, 20, 3, 2)));
  EXPECT_TRUE(conv_col2im_wins<double>(kToX, true, geometry(4, 64, 32, 64, 3, 2)));
  EXPECT_FALSE(conv_col2im_wins<float>(kToX, false, geometry(0, 3, 224, 64, 7, 2, 3)));
}

}  // namespace
}  // namespace brim::cpu
