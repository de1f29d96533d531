// The gradient of layer_norm and the addition of its residual's become one launch, and change no
// bit.
#include <gtest/gtest.h>

#include <functional>

#include <brim/brim.h>

namespace brim {
namespace {

using NormedNet = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

/// How many launches of it a compiled step of `net` has.
int fused_layer_norms(const NormedNet& net, DType dtype = f32) {
  manual_seed(3);
  const Tensor weight = randn({6}).to(dtype).set_requires_grad(),
               bias = randn({6}).to(dtype).set_requires_grad();
  const Tensor in = randn({4, 3, 6}).to(dtype), w = randn({4, 3, 6}).to(dtype);
  const std::function<std::vector<Tensor>(const Tensor&)> step = [&](const Tensor& at) {
    const Tensor x = at.detach().set_requires_grad();
    return autograd::grad(std::vector{net(x, weight, bias)}, std::vector{x, weight, bias},
                          std::vector{w});
  };
  const std::vector<Tensor> want = step(in);
  auto compiled = compile(step);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> got = compiled(in);
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(sum(ne(got[k], want[k])).item<int64_t>(), 0) << "gradient " << k << "\n"
                                                             << compiled.explain();
  }
  int count = 0;
  const std::string explained = compiled.explain(), name = " layer_norm_grad_add ";
  for (size_t at = 0; (at = explained.find(name, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(FuseLayerNorm, TheResidualsGradient) {
  const NormedNet before = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return x + tanh(layer_norm(x, {6}, w, b));
  };
  const NormedNet behind = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return tanh(layer_norm(x, {6}, w, b)) + x;
  };
  for (const DType dtype : {f32, f64}) {
    EXPECT_EQ(fused_layer_norms(before, dtype), 1);
    EXPECT_EQ(fused_layer_norms(behind, dtype), 1);
  }
  EXPECT_EQ(fused_layer_norms(before, bf16), 0);  // the CPU's would round once
  EXPECT_EQ(fused_layer_norms([](const Tensor& x, const Tensor& w, const Tensor& b) {
              return x + tanh(layer_norm(x, {6})) * w + b;
            }),
            1);
}

TEST(FuseLayerNorm, SeveralBlocks) {
  EXPECT_EQ(fused_layer_norms([](const Tensor& x, const Tensor& w, const Tensor& b) {
              Tensor y = x;
              for (int i = 0; i < 3; ++i) y = y + tanh(layer_norm(y, {6}, w, b));
              return y;
            }),
            3);
}

TEST(FuseLayerNorm, NotWhereItsOwnGradientIsSeen) {
  EXPECT_EQ(fused_layer_norms([](const Tensor& x, const Tensor& w, const Tensor& b) {
              const Tensor y = tanh(x);  // its gradient is the sum of two, times another
              return layer_norm(y, {6}, w, b) * 2 + sin(y);
            }),
            1);
  EXPECT_EQ(fused_layer_norms([](const Tensor& x, const Tensor& w, const Tensor& b) {
              return layer_norm(tanh(x), {6}, w, b);
            }),
            0);
}

}  // namespace
}  // namespace brim
