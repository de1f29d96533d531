// Batch normalisation with a residual and a ReLU by execution plans of cuDNN's backend API: when
// they compute instead of brim's own kernels, and what becomes of failures. Over the emulation and
// the fake of cuDNN.
#include <string>

#include "backend/cuda/libraries_fixture.h"
#include "backend/fused/fused_norm.h"
#include "distance.h"

namespace brim {
namespace {

using tests::distance;
using tests::Lines;

struct NormProblem {
  int64_t height;  // that no other test has: another problem
  DType dtype = f32;
  MemoryFormat format = MemoryFormat::nhwc;
  bool residual = true, dresidual = true, running = true;
  int64_t shift = 0;  // elements before weight and bias
};

struct CudaLibrariesNormPlans : tests::CudaLibraries {
  using Results = std::vector<Tensor>;

  static Results compute(const NormProblem& p, const Results& in, Device device) {
    static const backend::BatchNormRelu forward("batch_norm_relu");
    static const backend::BatchNormReluGrad backward("batch_norm_relu_grad");
    const auto activation = [&](size_t i) { return in[i].to(device).to(p.dtype).to(p.format); };
    const auto parameter = [&](size_t i) {
      return in[i].to(device).to(p.dtype == f64 ? f64 : f32).slice(0, p.shift, p.shift + 8);
    };
    const Tensor x = activation(0), dy = activation(1), weight = parameter(3), bias = parameter(4);
    const Tensor residual = p.residual ? activation(2) : Tensor();
    const TensorOptions kept{.dtype = weight.dtype(), .device = device};
    Tensor mean = zeros({8}, kept), scale = zeros({8}, kept), dweight = zeros({8}, kept),
           dbias = zeros({8}, kept), y = x.clone(), dx = x.clone();
    Tensor running_mean, running_var, dresidual;
    if (p.running) running_mean = zeros({8}, kept), running_var = ones({8}, kept);
    if (p.dresidual) dresidual = x.clone();
    forward(device, p.dtype, x, weight, bias, {}, {}, residual, running_mean, running_var, y, mean,
            scale, {.training = true});
    backward(device, p.dtype, dy, x, weight, bias, mean, scale, p.residual ? y : Tensor(), dx,
             dweight, dbias, dresidual, true);
    Results all{y, mean, scale, dx, dweight, dbias};
    if (p.dresidual) all.push_back(dresidual);
    if (p.running) all.insert(all.end(), {running_mean, running_var});
    return all;
  }
  /// Computes it on both devices; returns what cuDNN was asked for.
  Lines check(const NormProblem& p) {
    const Shape shape{3, 8, p.height, 5};
    const Results in{randn(shape) * 2 + 1, randn(shape), randn(shape), randn({8 + p.shift}),
                     randn({8 + p.shift})};
    (void)asked();
    const Results got = compute(p, in, cuda);
    Lines lines = asked();
    const Results want = compute(p, in, Device::cpu());
    const double tolerance = p.dtype == f64   ? 1e-10
                             : p.dtype == f32 ? 1e-4
                             : p.dtype == f16 ? 1e-2
                                              : 6e-2;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(distance(got[i], want[i]), tolerance * (1 + max(abs(want[i].to(f64))).item()))
          << "result " << i << " " << name(p.dtype);
    return lines;
  }
  /// The lines of the second time, which measures nothing.
  Lines chosen(const NormProblem& p) {
    (void)check(p);
    return check(p);
  }
};

TEST_F(CudaLibrariesNormPlans, ComputeWhereTheyAreTheFastest) {
  let("fast-plans");
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nhwc, MemoryFormat::nchw}) {
      const Lines lines = chosen({.height = 11, .dtype = dtype, .format = format});
      const char* tail = format == MemoryFormat::nhwc ? " engine 7 nhwc" : " engine 7 nchw";
      EXPECT_EQ(lines.size(), 1U) << name(dtype);
      EXPECT_EQ(count(lines, "plan norm forward type"), 1);
      EXPECT_EQ(count(lines, tail), 1) << name(dtype);
    }
}

TEST_F(CudaLibrariesNormPlans, DoWithoutRunningStatistics) {
  let("fast-plans");
  EXPECT_EQ(chosen({.height = 13, .running = false}).size(), 1U);
}

TEST_F(CudaLibrariesNormPlans, AreNotChosenWhereBrimsKernelsAreFaster) {
  EXPECT_GT(count(check({.height = 14}), "plan norm"), 0);  // measured
  EXPECT_EQ(count(check({.height = 14}), "plan norm"), 0);
}

TEST_F(CudaLibrariesNormPlans, ThatComputeSomethingElseAreLeftOut) {
  let("fast-plans batch-norm-differs");
  EXPECT_EQ(count(chosen({.height = 15}), "plan norm forward"), 0);
  let("fast-plans");  // what was found stays
  EXPECT_EQ(count(check({.height = 15}), "plan norm forward"), 0);
}

// The gradient works out y again from x, to the bit.
TEST_F(CudaLibrariesNormPlans, AreNotAskedForWithoutAResidual) {
  let("fast-plans");
  EXPECT_EQ(count(check({.height = 16, .residual = false, .dresidual = false}), "plan norm"), 0);
}

TEST_F(CudaLibrariesNormPlans, LeaveWhatIsNotAlignedToBrim) {
  let("fast-plans");
  EXPECT_EQ(count(check({.height = 17, .shift = 1}), "plan norm"), 0);
}

TEST_F(CudaLibrariesNormPlans, ThatFailLeaveTheWorkToBrim) {
  int64_t height = 21;
  for (const char* failure : {"fast-plans plans-fail", "fast-plans plans-need-much", "no-plans",
                              "heuristics-fail", "backend-fails"}) {
    let(failure);
    EXPECT_EQ(count(chosen({.height = height++}), "plan norm"), 0) << failure;
  }
}

TEST_F(CudaLibrariesNormPlans, AreCapturedInGraphs) {
  let("fast-plans");
  const Tensor x = randn({3, 8, 31, 5}).to(cuda), weight = randn({8}).to(cuda);
  const Tensor bias = randn({8}).to(cuda), mean = zeros({8}).to(cuda), var = ones({8}).to(cuda);
  const auto body = [&](const Tensor& in) {
    return relu(batch_norm(in, weight, bias, mean, var, {.training = true}) + in) * 2;
  };
  const NoGrad guard;
  auto step = compile(body);
  const Tensor want = body(x);
  for (int i = 0; i < 2; ++i) EXPECT_LT(distance(step(x), want), 1e-4) << i;
  EXPECT_EQ(step.stats().graph_replays, 0);
  (void)asked();  // while it was measured
  for (int i = 0; i < 3; ++i) EXPECT_LT(distance(step(x), want), 1e-4) << i;
  EXPECT_GT(step.stats().graph_replays, 0);
  EXPECT_GT(count(asked(), "plan norm forward"), 0);
}

}  // namespace
}  // namespace brim
