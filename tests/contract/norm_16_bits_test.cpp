// Normalisation of 16-bit floats, forward and gradients: against f64, in shapes of whole and of
// broken blocks of pixels and channels, empty ones, both memory formats, alone and fused.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "contract/harness.h"

namespace brim {
namespace {

using contract::devices;

/// y of x, a weight and a bias of a channel each.
using Op = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)>;

/// y and the gradients of x, w and b, in f64 on the host.
std::vector<Tensor> run(const Op& op, const std::vector<Tensor>& from, const Tensor& dy,
                        DType activations, DType parameters, Device device) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < from.size(); ++i)
    leaves.push_back(
        from[i].to(i == 0 ? activations : parameters).to(device).detach().set_requires_grad());
  const Tensor y = op(leaves[0], leaves[1], leaves[2]);
  EXPECT_EQ(y.dtype(), activations);
  y.backward(dy.to(activations).to(device));
  std::vector<Tensor> all{y.detach()};
  for (const Tensor& leaf : leaves) all.push_back(leaf.grad());
  for (Tensor& t : all) t = t.to(Device::cpu()).to(f64).contiguous();
  return all;
}

void expect_near_f64(const std::string& name, const Op& op, const Shape& shape, int64_t channels,
                     MemoryFormat format) {
  Generator generator(5);
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16})
      for (const DType parameters : {dtype, f32}) {
        if (parameters == f32 && name != "batch_norm") continue;
        SCOPED_TRACE(name + " of " + shape.str() + ", " + std::string(brim::name(dtype)) + " and " +
                     std::string(brim::name(parameters)) + " on " + device.str());
        const auto draw = [&](const Shape& s, double shift) {
          return (randn(s, {}, &generator) + shift).to(dtype);
        };
        const auto lay = [&](const Tensor& t) { return t.rank() == 4 ? t.to(format) : t; };
        const std::vector<Tensor> from{lay(draw(shape, 1)), draw({channels}, 2),
                                       draw({channels}, 0)};
        const Tensor dy = lay(draw(shape, 0.5));
        const auto got = run(op, from, dy, dtype, parameters, device);
        const auto want = run(op, from, dy, f64, f64, Device::cpu());
        const double once = dtype == f16 ? 0x1p-11 : 0x1p-8;  // rounded to 16 bits
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i].shape(), want[i].shape());
          if (got[i].numel() == 0) continue;
          const double scale = amax(abs(want[i])).item();
          EXPECT_LE(amax(abs(got[i] - want[i])).item(), 1.5 * once * scale + 1e-4) << i;
        }
      }
}

Op batch_norm_op(bool training) {
  return [training](const Tensor& x, const Tensor& w, const Tensor& b) {
    const TensorOptions like{.dtype = w.dtype(), .device = w.device()};
    Tensor mean = zeros(w.shape(), like), var = ones(w.shape(), like);
    return batch_norm(x, w, b, mean, var, {.training = training});
  };
}

TEST(Norms16Bits, BatchNorm) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 70, 9, 11}, Shape{1, 64, 8, 8},
                             Shape{2, 2, 30, 43}, Shape{70, 130}, Shape{0, 3, 2, 2}})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const bool training : {true, false})
        expect_near_f64("batch_norm", batch_norm_op(training), shape, shape[1], format);
}

TEST(Norms16Bits, GroupNorm) {
  for (const Shape& shape :
       {Shape{2, 4, 5, 7}, Shape{3, 70, 9, 11}, Shape{1, 64, 8, 8}, Shape{2, 2, 30, 43}})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      expect_near_f64(
          "group_norm",
          [](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 2, w, b); },
          shape, shape[1], format);
}

TEST(Norms16Bits, LayerNorm) {
  for (const Shape& shape :
       {Shape{3, 7}, Shape{129, 10}, Shape{700, 64}, Shape{40, 65}, Shape{70, 256}, Shape{9, 512},
        Shape{9, 513}, Shape{33, 1001}, Shape{0, 10}})
    expect_near_f64(
        "layer_norm",
        [](const Tensor& x, const Tensor& w, const Tensor& b) {
          return layer_norm(x, {w.size(0)}, w, b);
        },
        shape, shape[1], MemoryFormat::nchw);
}

TEST(Norms16Bits, RmsNorm) {
  for (const Shape& shape : {Shape{3, 7}, Shape{2100, 10}, Shape{129, 32}, Shape{700, 64},
                             Shape{40, 65}, Shape{9, 513}, Shape{33, 1001}, Shape{0, 10}})
    expect_near_f64(
        "rms_norm",
        [](const Tensor& x, const Tensor& w, const Tensor& b) {
          return rms_norm(x, {w.size(0)}, w) + b;
        },
        shape, shape[1], MemoryFormat::nchw);
}

TEST(Norms16Bits, ANanStaysInItsRow) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f16, bf16})
    for (const int64_t n : {10, 64, 77, 1001}) {
      Generator generator(3);
      Tensor from = randn({5, n}, {}, &generator);
      from[2][n - 1].fill_(kInf - kInf);
      for (const bool rms : {false, true}) {
        const Tensor x = from.to(dtype).set_requires_grad();
        const Tensor y = rms ? rms_norm(x, {n}) : layer_norm(x, {n});
        y.backward(ones_like(y.detach()));
        for (const Tensor& t : {y.detach(), x.grad()})
          for (int64_t row = 0; row < 5; ++row)
            EXPECT_EQ(all(isfinite(t[row])).item<bool>(), row != 2) << name(dtype) << " " << n;
      }
    }
}

// Of three channels one holds a NaN, one an infinity, in the last elements of a run.
TEST(Norms16Bits, NansAndInfinitiesStayInTheirChannels) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16})
      for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
        SCOPED_TRACE(std::string(name(dtype)) + " on " + device.str());
        Generator generator(3);
        Tensor x = randn({2, 3, 5, 13}, {}, &generator);
        x[1][1][4][12].fill_(kInf - kInf);
        x[1][2][4][12].fill_(kInf);
        const Tensor w = ones({3}, {.device = device}), b = zeros({3}, {.device = device});
        const Tensor leaf = x.to(dtype).to(format).to(device).detach().set_requires_grad();
        const Tensor y = batch_norm_op(true)(leaf, w, b);
        y.backward(ones_like(y.detach()));
        for (const Tensor& t : {y.detach(), leaf.grad()}) {
          EXPECT_TRUE(all(isfinite(t.select(1, 0))).item<bool>());
          EXPECT_FALSE(any(isfinite(t.select(1, 1))).item<bool>());
          EXPECT_FALSE(any(isfinite(t.select(1, 2))).item<bool>());
        }
      }
}

// With a residual and a ReLU behind, fused, as it is one op after the other.
TEST(Norms16Bits, FusedBatchNormIsThePlainOne) {
  for (const DType dtype : {f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(std::string(name(dtype)) + (adds ? " adds" : ""));
        const auto train = [&](bool compiled) {
          Generator generator(9);
          const auto draw = [&](const Shape& s) { return randn(s, {}, &generator).to(dtype); };
          const Tensor x = draw({2, 70, 9, 11}).to(format).set_requires_grad();
          const Tensor more = draw({2, 70, 9, 11}).to(format);
          const Tensor w = draw({70}).to(f32).set_requires_grad();
          const Tensor b = draw({70}).to(f32).set_requires_grad();
          const auto step = [&](const Tensor& dy) {
            Tensor mean = zeros({70}), var = ones({70});
            Tensor y = batch_norm(x, w, b, mean, var, {.training = true});
            y = relu(adds ? y + more : y);
            y.backward(dy);
            return y.detach();
          };
          const Tensor dy = draw({2, 70, 9, 11}).to(format);
          const Tensor y = compiled ? compile(step)(dy) : step(dy);
          std::vector<Tensor> all{y, x.grad(), w.grad(), b.grad()};
          for (Tensor& t : all) t = t.to(f64).contiguous();
          return all;
        };
        const auto plain = train(false), fused = train(true);
        // Rounded before the addition, a sum near 0 may have the other sign, and no gradient.
        for (size_t i = 0; i < (adds ? 1 : plain.size()); ++i)
          EXPECT_LE(amax(abs(plain[i] - fused[i])).item(),
                    (dtype == f16 ? 0x1p-9 : 0x1p-6) * amax(abs(plain[i])).item())
              << i;
      }
}

}  // namespace
}  // namespace brim
