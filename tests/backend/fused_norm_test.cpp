// The fused normalisation kernels against the ops that they stand for, and their gradients.
#include "backend/fused/fused_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "backend/expect_close.h"
#include "threads.h"

namespace brim {
namespace {

bool is_16_bits(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// Parameters and statistics are f32 where the dtype, which is the activations', has 16 bits.
struct FusedNormCase {
  Shape shape;
  MemoryFormat format;
  bool residual, keep_y, training;
  DType dtype;

  DType parameters() const { return is_16_bits(dtype) ? DType::f32 : dtype; }
  std::string str() const {
    return shape.str() + (format == MemoryFormat::nhwc ? " nhwc" : " nchw") +
           (residual ? " residual" : "") + (keep_y ? " y" : "") + (training ? " training " : " ") +
           std::string(name(dtype));
  }
};

std::vector<FusedNormCase> cases() {
  std::vector<FusedNormCase> all;
  for (const Shape& shape : {Shape{3, 5, 7, 9}, Shape{2, 16, 4, 4}, Shape{1, 80, 30, 25},
                             Shape{2, 70, 1, 1}, Shape{130, 3, 5, 5}, Shape{4, 1, 3, 3}})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const bool residual : {false, true})
        for (const bool keep_y : {false, true})
          for (const bool training : {true, false})
            for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
              if (keep_y || !residual)
                all.push_back({shape, format, residual, keep_y, training, dtype});
  return all;
}

/// What goes in and comes out of both kernels.
struct Fused {
  Tensor x, weight, bias, residual, dy;
  Tensor running_mean, running_var, y, mean, scale, dx, dweight, dbias, dresidual;

  explicit Fused(const FusedNormCase& c) {
    const TensorOptions options{.dtype = c.dtype}, kept{.dtype = c.parameters()};
    const Shape channels{c.shape[1]};
    x = (randn(c.shape, options) * 2 + 3).to(c.format);
    dy = randn(c.shape, options).to(c.format);
    if (c.residual) residual = randn(c.shape, options).to(c.format);
    weight = randn(channels, kept);
    bias = randn(channels, kept);
    running_mean = zeros(channels, kept);
    running_var = ones(channels, kept);
    y = randn(c.shape, options).to(c.format);
    dx = y.clone().to(c.format);
    if (c.residual) dresidual = y.clone().to(c.format);
    mean = zeros(channels, kept);
    scale = zeros(channels, kept);
    dweight = zeros(channels, kept);
    dbias = zeros(channels, kept);
  }
  void run(const FusedNormCase& c) {
    static const backend::BatchNormRelu forward("batch_norm_relu");
    static const backend::BatchNormReluGrad backward("batch_norm_relu_grad");
    const Tensor fixed_mean = c.training ? Tensor() : running_mean,
                 fixed_var = c.training ? Tensor() : running_var;
    Tensor none, none_too;
    forward(Device(), c.dtype, x, weight, bias, fixed_mean, fixed_var, residual,
            c.training ? running_mean : none, c.training ? running_var : none_too, y, mean, scale,
            {.training = c.training});
    backward(Device(), c.dtype, dy, x, weight, bias, mean, scale, c.keep_y ? y : Tensor(), dx,
             dweight, dbias, dresidual, c.training);
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> all{y, dx, dweight, dbias, running_mean, running_var};
    if (dresidual.defined()) all.push_back(dresidual);
    return all;
  }
};

/// The same by ops, which would round more often in 16 bits: in f64 there.
std::vector<Tensor> composed(const Fused& f, const FusedNormCase& c) {
  const DType dtype = is_16_bits(c.dtype) ? DType::f64 : c.dtype;
  const auto leaf = [&](const Tensor& t) {
    return t.defined() ? t.detach().clone().to(dtype).set_requires_grad() : Tensor();
  };
  const Tensor x = leaf(f.x), weight = leaf(f.weight), bias = leaf(f.bias),
               residual = leaf(f.residual);
  const TensorOptions options{.dtype = dtype};
  Tensor running_mean = zeros({c.shape[1]}, options), running_var = ones({c.shape[1]}, options);
  Tensor y = batch_norm(x, weight, bias, running_mean, running_var, {.training = c.training});
  if (residual.defined()) y = y + residual;
  y = relu(y);
  sum(y * f.dy.to(dtype)).backward();
  std::vector<Tensor> all{y.detach(),  x.grad(),     weight.grad(),
                          bias.grad(), running_mean, running_var};
  if (residual.defined()) all.push_back(residual.grad());
  return all;
}

TEST(FusedNorm, EqualsTheOps) {
  manual_seed(3);
  for (const FusedNormCase& c : cases()) {
    if (c.training && c.shape.numel() == c.shape[1]) continue;
    Fused fused(c);
    fused.run(c);
    const auto expected = composed(fused, c), results = fused.results();
    for (size_t i = 0; i < expected.size(); ++i) {
      const DType dtype = results[i].dtype();
      const double tolerance = dtype == DType::f64   ? 1e-12
                               : dtype == DType::f32 ? 2e-5
                               : dtype == DType::f16 ? 1.0 / 2000
                                                     : 1.0 / 250;
      expect_close(results[i], expected[i], tolerance, c.str() + ", result " + std::to_string(i));
    }
  }
}

TEST(FusedNorm, AgainIsTheSameToTheBit) {
  static const backend::BatchNormAgain kernel("batch_norm_again");
  static const backend::Kernel<void(const Context&, const Tensor&, const Tensor&, const Tensor&,
                                    const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&,
                                    Tensor&, Tensor&, const backend::BatchNormParams&)>
      without_relu("batch_norm");
  for (const FusedNormCase& c : cases()) {
    Fused f(c);
    f.run(c);
    Tensor again = full(c.shape, 7, {.dtype = c.dtype}).to(c.format);
    kernel(Device(), c.dtype, f.x, f.weight, f.bias, f.mean, f.scale, f.residual, again, true);
    EXPECT_EQ(max(abs(again - f.y)).item(), 0) << c.str();
    if (!c.training || c.residual) continue;
    Tensor none;
    without_relu(Device(), c.dtype, f.x, f.weight, f.bias, none, none, f.running_mean,
                 f.running_var, f.y, f.mean, f.scale, {.training = true, .repeatable = true});
    kernel(Device(), c.dtype, f.x, f.weight, f.bias, f.mean, f.scale, none, again, false);
    EXPECT_EQ(max(abs(again - f.y)).item(), 0) << c.str() << " without ReLU";
  }
}

TEST(FusedNorm, DoesNotDependOnThreads) {
  for (const FusedNormCase& c : cases()) {
    manual_seed(5);
    Fused one(c);
    manual_seed(5);
    Fused two(c);
    const auto run_on = [&](int threads, Fused& fused) {
      const tests::Threads guard(threads);
      fused.run(c);
    };
    run_on(1, one);
    run_on(2, two);
    for (size_t i = 0; i < one.results().size(); ++i)
      EXPECT_EQ(one.results()[i].to(DType::f64).to_vector<double>(),
                two.results()[i].to(DType::f64).to_vector<double>())
          << c.str() << ", result " << i;
  }
}

TEST(FusedNorm, MomentsOfFarAwayValues) {
  const FusedNormCase c{{8, 16, 9, 9}, MemoryFormat::nhwc, false, false, true, DType::f32};
  Fused f(c);
  f.x = (randn(c.shape) + 10000).to(c.format);
  // The first image lies elsewhere: sums about its values would lose the others' digits.
  f.x.slice(0, 0, 1).fill_(0);
  f.run(c);
  const Tensor x = f.x.to(DType::f64);
  const Tensor centred = x - mean(x, {0, 2, 3}, true);
  const Tensor scale = rsqrt(mean(centred * centred, {0, 2, 3}) + 1e-5);
  expect_close(f.scale.to(DType::f64) / scale, ones({16}), 1e-6, "scale");
}

TEST(FusedNorm, KeepsNaN) {
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const FusedNormCase c{{2, 3, 4, 4}, format, false, false, true, DType::f32};
    Fused f(c);
    f.x.slice(1, 1, 2).fill_(std::numeric_limits<float>::quiet_NaN());
    f.run(c);
    const auto y = f.y.to_vector<float>();
    EXPECT_FALSE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[16]));
  }
}

}  // namespace
}  // namespace brim
