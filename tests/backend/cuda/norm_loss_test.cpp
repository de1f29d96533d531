// CUDA's normalisation, loss and clipping kernels against the CPU's: the fused ones, which no op
// calls outside of a plan, large sizes, both memory formats, and labels that are no class. Skipped
// without a CUDA device (BRIM_BACKEND_PATH may name the emulated one).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <brim/core/random.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>
#include <brim/optim/clip.h>

#include "backend/expect_close.h"
#include "backend/fused/fused_loss.h"
#include "backend/fused/fused_norm.h"

namespace brim {
namespace {

using Tensors = std::vector<Tensor>;

class CudaNormLoss : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(17);
  }
};

const Device kCuda = Device::cuda(0);

double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-11 : dtype == f32 ? 3e-5 : dtype == f16 ? 4e-3 : 3e-2;
}

void expect_all_close(const Tensors& on_cuda, const Tensors& on_cpu, double tolerance,
                      const std::string& what) {
  ASSERT_EQ(on_cuda.size(), on_cpu.size()) << what;
  for (size_t k = 0; k < on_cpu.size(); ++k)
    expect_close(on_cuda[k], on_cpu[k], tolerance, what + ", result " + std::to_string(k));
}

struct NormCase {
  Shape shape;
  MemoryFormat format;
  bool residual, keep_y, training;
  DType dtype, parameters;
};

/// The operands of the fused kernels on one device.
struct FusedNorm {
  Tensor x, dy, residual, weight, bias;

  FusedNorm to(Device device) const {
    const auto move = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
    return {move(x), move(dy), move(residual), move(weight), move(bias)};
  }
  Tensors run(const NormCase& c, bool repeatable = false) const {
    static const backend::BatchNormRelu forward("batch_norm_relu");
    static const backend::BatchNormReluGrad backward("batch_norm_relu_grad");
    static const backend::BatchNormAgain again("batch_norm_again");
    const Shape channels{c.shape[1]};
    const TensorOptions options{.dtype = c.parameters, .device = x.device()};
    TensorOptions kept = options;
    if (size_of(c.parameters) < 4) kept.dtype = f32;
    Tensor running_mean = zeros(channels, options), running_var = ones(channels, options);
    Tensor mean = zeros(channels, kept), scale = zeros(channels, kept);
    Tensor y = x.clone(), dx = x.clone(), y_again = x.clone();
    Tensor dweight = zeros(channels, options), dbias = zeros(channels, options), none, none_too;
    Tensor dresidual = c.residual ? x.clone() : Tensor();
    forward(x.device(), c.dtype, x, weight, bias, c.training ? none : running_mean,
            c.training ? none : running_var, residual, c.training ? running_mean : none,
            c.training ? running_var : none_too, y, mean, scale,
            {.training = c.training, .repeatable = repeatable});
    backward(x.device(), c.dtype, dy, x, weight, bias, mean, scale, c.keep_y ? y : Tensor(), dx,
             dweight, dbias, dresidual, c.training);
    if (repeatable || !c.residual) {
      again(x.device(), c.dtype, x, weight, bias, mean, scale, residual, y_again, true);
      EXPECT_EQ(max(abs(y_again - y)).item(), 0) << "worked out again";
    }
    Tensors all{y, dx, mean, scale, dweight, dbias, running_mean, running_var};
    if (c.residual) all.push_back(dresidual);
    return all;
  }
};

void compare(const NormCase& c) {
  const TensorOptions options{.dtype = c.dtype};
  FusedNorm f;
  f.x = (randn(c.shape, options) * 2.0 + 3.0).to(c.format);
  f.dy = randn(c.shape, options).to(c.format);
  if (c.residual) f.residual = randn(c.shape, options).to(c.format);
  f.weight = randn({c.shape[1]}, {.dtype = c.parameters});
  f.bias = randn({c.shape[1]}, {.dtype = c.parameters});
  const Tensors actual = f.to(kCuda).run(c), expected = f.run(c);
  if (c.residual) (void)f.to(kCuda).run(c, /*repeatable=*/true);
  for (size_t i = 0; i < expected.size(); ++i)
    expect_close(actual[i], expected[i], tolerance_of(expected[i].dtype()),
                 c.shape.str() + (c.format == MemoryFormat::nhwc ? " nhwc " : " nchw ") +
                     std::string(name(c.dtype)) + " with " + std::string(name(c.parameters)) +
                     (c.training ? " training" : "") + (c.residual ? " residual" : "") +
                     ", result " + std::to_string(i));
}

TEST_F(CudaNormLoss, FusedBatchNorm) {
  for (const Shape& shape :
       {Shape{3, 5, 7, 9}, Shape{2, 70, 1, 1}, Shape{30, 3, 12, 12}, Shape{4, 16, 5, 5}})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const bool residual : {false, true})
        for (const bool training : {true, false})
          compare({shape, format, residual, residual, training, f32, f32});
  for (const DType dtype : {f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      compare({{4, 16, 4, 6}, format, true, true, true, dtype, dtype});
}

TEST_F(CudaNormLoss, FusedBatchNormOf16BitsWithF32Parameters) {
  for (const DType dtype : {f16, bf16})
    for (const Shape& shape : {Shape{3, 5, 7, 9}, Shape{4, 16, 5, 5}, Shape{6, 40, 8, 8}})
      for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
        for (const bool residual : {false, true})
          for (const bool training : {true, false})
            compare({shape, format, residual, residual, training, dtype, f32});
}

TEST_F(CudaNormLoss, BatchNormOf16BitsWithF32Parameters) {
  for (const DType dtype : {f16, bf16})
    for (const Shape& shape : {Shape{3, 5, 7, 9}, Shape{4, 16, 5, 5}, Shape{0, 3, 2, 2}})
      for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
        for (const bool affine : {true, false})
          for (const bool training : {true, false}) {
            const Tensor of = (randn(shape) * 2.0 + 3.0).to(dtype), dy = randn(shape).to(dtype);
            const Tensor weight = randn({shape[1]}), bias = randn({shape[1]});
            const auto run = [&](Device device) {
              const Tensor x = of.to(device).to(format).set_requires_grad();
              Tensor w, b;
              if (affine) {
                w = weight.clone().to(device).set_requires_grad();
                b = bias.clone().to(device).set_requires_grad();
              }
              Tensor mean = zeros({shape[1]}, {.device = device});
              Tensor var = ones({shape[1]}, {.device = device});
              const Tensor y = batch_norm(x, w, b, mean, var, {.training = training});
              y.backward(dy.to(device));
              Tensors all{y.detach(), x.grad(), mean, var};
              if (affine) all.insert(all.end(), {w.grad(), b.grad()});
              return all;
            };
            const Tensors actual = run(kCuda), expected = run(Device::cpu());
            for (size_t i = 0; i < expected.size(); ++i) {
              EXPECT_EQ(actual[i].dtype(), i < 2 ? dtype : f32) << i;
              expect_close(actual[i], expected[i], tolerance_of(expected[i].dtype()),
                           shape.str() + std::string(name(dtype)) + " " + std::to_string(i));
            }
          }
}

// Channels in packs: several parts of the pixels, rows of packs that fill no warp, and several
// groups of them.
TEST_F(CudaNormLoss, BatchNormOfManyPixels) {
  for (const Shape& shape : {Shape{4, 24, 40, 41}, Shape{3, 520, 9, 7}, Shape{300, 64, 1, 1}})
    for (const DType dtype : {f32, bf16})
      for (const bool residual : {false, true})
        compare({shape, MemoryFormat::nhwc, residual, residual, true, dtype, f32});
  compare({{4, 24, 20, 21}, MemoryFormat::nhwc, true, true, true, f64, f64});
}

TEST_F(CudaNormLoss, BatchNormWithParametersThatPacksDoNotFit) {
  const Tensor x = randn({4, 16, 5, 5}), weight = randn({17}), bias = randn({18});
  const auto run = [&](Device device) {
    const Tensor y =
        batch_norm(x.to(device).to(MemoryFormat::nhwc), weight.to(device).slice(0, 1, 17),
                   bias.to(device).slice(0, 2, 18), {}, {}, {.training = true});
    return Tensors{y};
  };
  expect_all_close(run(kCuda), run(Device::cpu()), 3e-5, "views");
}

TEST_F(CudaNormLoss, MomentsOfFarAwayValues) {
  const Shape shape{8, 16, 9, 9};
  Tensor x = randn(shape) + 10000.0;
  x.slice(0, 0, 1).fill_(0);  // the first image lies elsewhere
  const Tensor x64 = x.to(f64), centred = x64 - mean(x64, {0, 2, 3}, true);
  const Tensor want = rsqrt(mean(centred * centred, {0, 2, 3}) + 1e-5);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const NormCase c{shape, format, false, true, true, f32, f32};
    const FusedNorm f{x.to(format), randn(shape).to(format), {}, {}, {}};
    const Tensor scale = f.to(kCuda).run(c)[3].to(Device::cpu()).to(f64);
    EXPECT_LT(max(abs(scale / want - 1.0)).item(), 1e-6);
  }
}

TEST_F(CudaNormLoss, LargeLosses) {
  for (const Shape& shape : {Shape{70, 10}, Shape{3, 1200}, Shape{5, 33}, Shape{0, 4}})
    for (const double smoothing : {0.0, 0.1})
      for (const bool weighted : {false, true})
        for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
          const Tensor x = randn(shape) * 3.0, weights = rand({shape[1]}) + 0.5;
          Tensor target = (rand({shape[0]}) * static_cast<double>(shape[1])).to(i64);
          if (shape[0] > 2) target.slice(0, 1, 2).fill_(-100);
          const auto run = [&](Device device) {
            const Tensor leaf = x.to(device).detach().set_requires_grad();
            CrossEntropyOptions options;
            if (weighted) options.weight = weights.to(device);
            options.reduction = reduction;
            options.label_smoothing = smoothing;
            const Tensor loss = cross_entropy(leaf, target.to(device), options);
            sum(loss).backward();
            return Tensors{loss.detach(), leaf.grad()};
          };
          expect_all_close(run(kCuda), run(Device::cpu()), 3e-5, shape.str());

          static const backend::FusedLossKernel fused("softmax_cross_entropy");
          const auto run_fused = [&](Device device) {
            const bool single = reduction == Reduction::none;
            Tensor loss = zeros(single ? Shape{shape[0]} : Shape{}, {.device = device});
            Tensor dx = zeros(shape, {.device = device});
            fused(device, f32, x.to(device), target.to(device),
                  weighted ? weights.to(device) : Tensor(), loss, dx,
                  {.smoothing = smoothing,
                   .shape = single                         ? backend::LossShape::single
                            : reduction == Reduction::mean ? backend::LossShape::mean
                                                           : backend::LossShape::sum});
            return Tensors{loss, dx};
          };
          expect_all_close(run_fused(kCuda), run_fused(Device::cpu()), 3e-5,
                           "fused " + shape.str());
        }
}

TEST_F(CudaNormLoss, LabelsOutOfRangeAreErrors) {
  const Tensor x = zeros({3, 4}, {.device = kCuda});
  const Tensor target = Tensor::from<int64_t>({0, 4, 1}, {3}).to(kCuda);
  for (const bool nll : {false, true}) {
    const std::string op = nll ? "nll_loss" : "cross_entropy";
    try {
      (void)(nll ? nll_loss(x, target) : cross_entropy(x, target)).item();
      ADD_FAILURE() << op << " took a label that is no class";
    } catch (const IndexError& e) {
      EXPECT_EQ(std::string(e.what()).find("[" + op + "] label 4 at position 1"), 0) << e.what();
    }
  }
}

TEST_F(CudaNormLoss, Clipping) {
  for (const DType dtype : {f32, f64})
    for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
      for (const double limit : {0.5, 1e6}) {
        Tensors gradients;
        for (int i = 0; i < 70; ++i)  // more than one launch takes
          gradients.push_back(randn({i % 9 == 4 ? 0 : i == 7 ? 9001 : i + 1}, {.dtype = dtype}));
        const auto run = [&](Device device) {
          Tensors parameters, results;
          for (const Tensor& g : gradients) {
            parameters.push_back(zeros(g.shape(), {.dtype = dtype, .device = device}));
            parameters.back().set_requires_grad();
            parameters.back().set_grad(g.clone().to(device));
          }
          results.push_back(optim::clip_grad_norm_(parameters, limit, p));
          for (const Tensor& t : parameters) results.push_back(t.grad().clone());
          optim::clip_grad_value_(parameters, 0.01);
          for (const Tensor& t : parameters) results.push_back(t.grad());
          return results;
        };
        expect_all_close(run(kCuda), run(Device::cpu()), tolerance_of(dtype),
                         "norm " + std::to_string(p));
      }
}

TEST_F(CudaNormLoss, NaNGoesIntoEveryClippedGradient) {
  Tensor a = zeros({3}, {.device = kCuda}).set_requires_grad();
  a.set_grad(Tensor::from<float>({1, NAN, 2}, {3}).to(kCuda));
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({a}, 1.0).item()));
  EXPECT_TRUE(std::isnan(a.grad().to(Device::cpu()).to_vector<float>()[0]));
}

}  // namespace
}  // namespace brim
