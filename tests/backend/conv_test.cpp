// The two ways to convolve on the CPU give the same numbers, and neither depends on the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <brim/core/threads.h>
#include <brim/ops/create.h>

#include "backend/cpu/conv_direct.h"
#include "backend/cpu/conv_dnnl.h"

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
    conv_direct<float>(context, from, with, nullptr, out.data<float>(), g);
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
            bias.defined() ? bias.data<float>() : nullptr, out.data<float>());
  return out;
}

/// Largest difference over the largest number.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - y[i]));
    scale = std::max(scale, std::abs(static_cast<double>(y[i])));
  }
  return worst / scale;
}

TEST(Conv, OneDnnEqualsDirect) {
#if !BRIM_HAVE_DNNL
  GTEST_SKIP() << "built without oneDNN";
#endif
  manual_seed(1);
  for (const ConvGeometry& g : kGeometries)
    for (const Pass& p : passes(g)) {
      const Tensor a = randn(p.a), b = randn(p.b);
      EXPECT_LT(difference(run_dnnl(p, g, a, b), run_direct(p, g, a, b)), 2e-6)
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
  EXPECT_LT(difference(run_dnnl(p, g, a, b, bias), expected), 2e-6);
}

TEST(Conv, ThreadsDoNotChangeABit) {
  manual_seed(3);
  const int before = num_threads();
  for (const ConvGeometry& g : {geometry(32, 16, 20, 32, 3, 1, 1), geometry(24, 16, 20, 32, 3, 2)})
    for (const Pass& p : passes(g)) {
      const Tensor a = randn(p.a), b = randn(p.b);
      set_num_threads(1);
      const auto direct = run_direct(p, g, a, b).to_vector<float>();
      set_num_threads(4);
      EXPECT_EQ(run_direct(p, g, a, b).to_vector<float>(), direct);
#if BRIM_HAVE_DNNL
      const auto four = run_dnnl(p, g, a, b).to_vector<float>();
      set_num_threads(1);
      EXPECT_EQ(run_dnnl(p, g, a, b).to_vector<float>(), four);
#endif
    }
  set_num_threads(before);
}

TEST(Conv, TheChoiceFollowsTheShape) {
#if BRIM_HAVE_DNNL
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(4, 3, 32, 6, 5)));
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 3, 32, 6, 5)));
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(4, 64, 56, 64, 3, 1, 1)));
  EXPECT_TRUE(dnnl_conv_wins(ConvPass::grad_weight, geometry(4, 64, 56, 64, 3, 1, 1)));
  EXPECT_TRUE(dnnl_conv_wins(ConvPass::forward, geometry(4, 512, 7, 512, 3, 1, 1)));
#endif
  EXPECT_FALSE(dnnl_conv_wins(ConvPass::forward, geometry(0, 512, 7, 512, 3, 1, 1)));
}

}  // namespace
}  // namespace brim::cpu
