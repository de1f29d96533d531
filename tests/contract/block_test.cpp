// A transformer block's step, compiled: what its passes fuse and move is what the ops compute
// apart, on every backend.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "contract/harness.h"

namespace brim::contract {
namespace {

/// The gradients of x and of all weights.
using Step = std::function<Tensors(const Tensor& x)>;

/// Attention of two heads and a layer with GELU, each with layer norm before it and a residual.
Step block(DType dtype, Device device) {
  const auto leaf = [&](const Shape& shape, size_t seed) {
    return make_input({.shape = shape, .low = -0.5, .high = 0.5}, dtype, seed)
        .to(device)
        .detach()
        .set_requires_grad();
  };
  const Tensor gain = leaf({8}, 2), shift = leaf({8}, 3), qkv = leaf({24, 8}, 4),
               out = leaf({8, 8}, 5), up = leaf({20, 8}, 6), bias = leaf({20}, 7),
               down = leaf({8, 20}, 8);
  return [=](const Tensor& in) {
    const Tensor x = in.detach().set_requires_grad();
    const int64_t n = in.size(0), t = in.size(1);
    const Tensor h = linear(layer_norm(x, {8}, gain, shift), qkv, {});
    const Tensor parts = h.reshape({n, t, 3, 2, 4}).permute({2, 0, 3, 1, 4});
    const Tensor scores = matmul(parts.select(0, 0), parts.select(0, 1).transpose(-2, -1)) * 0.5;
    Tensor y = matmul(softmax(scores, -1), parts.select(0, 2)).transpose(1, 2).reshape({n, t, 8});
    y = x + linear(y, out, {});
    y = y + linear(gelu(linear(layer_norm(y, {8}, gain, shift), up, bias)), down, {});
    return autograd::grad(std::vector{mean(y * y)},
                          std::vector{x, gain, shift, qkv, out, up, bias, down});
  };
}

TEST(CompiledBlock, HasTheGradientsOfTheEagerOne) {
  for (const Device device : devices())
    for (const DType dtype : {f32, f64, bf16}) {
      SCOPED_TRACE(device.str() + ", " + std::string(name(dtype)));
      const Step step = block(dtype, device);
      const Tensor x = make_input({.shape = {3, 5, 8}}, dtype, 1).to(device);
      const Tensors want = step(x);
      auto compiled = compile([&](const Tensor& in) { return step(in); });
      for (int i = 0; i < 2; ++i) {
        const Tensors got = compiled(x);
        for (size_t k = 0; k < want.size(); ++k)
          expect_near(got[k].to(Device::cpu()), want[k].to(Device::cpu()),
                      dtype == f64   ? 1e-12
                      : dtype == f32 ? 1e-6
                                     : 1e-3,
                      "gradient " + std::to_string(k));
      }
      const std::string explained = compiled.explain();
      EXPECT_NE(explained.find("chain"), std::string::npos) << explained;
      EXPECT_EQ(explained.find("elide_copies: nothing"), std::string::npos) << explained;
      if (dtype != bf16) {
        EXPECT_EQ(explained.find("layer_norm_grad_add: nothing"), std::string::npos) << explained;
      }
    }
}

/// The norm's gradient is the residual's too, and is overwritten by their sum.
TEST(CompiledBlock, TheResidualsGradientIsTheNormsOwn) {
  for (const Device device : devices())
    for (const DType dtype : {f32, f64}) {
      SCOPED_TRACE(device.str() + ", " + std::string(name(dtype)));
      const auto leaf = [&](size_t seed) {
        return make_input({.shape = {8}}, dtype, seed).to(device).detach().set_requires_grad();
      };
      const Tensor gain = leaf(2), shift = leaf(3);
      const Step step = [=](const Tensor& in) {
        const Tensor x = in.detach().set_requires_grad();
        const Tensor y = tanh(layer_norm(x, {8}, gain, shift) + x);
        return autograd::grad(std::vector{mean(y * y)}, std::vector{x, gain, shift});
      };
      const Tensor x = make_input({.shape = {3, 5, 8}}, dtype, 1).to(device);
      const Tensors want = step(x);
      auto compiled = compile([&](const Tensor& in) { return step(in); });
      const Tensors got = compiled(x);
      EXPECT_EQ(compiled.explain().find("layer_norm_grad_add: nothing"), std::string::npos);
      for (size_t k = 0; k < want.size(); ++k)
        expect_near(got[k].to(Device::cpu()), want[k].to(Device::cpu()), 1e-6,
                    "gradient " + std::to_string(k));
    }
}

}  // namespace
}  // namespace brim::contract
