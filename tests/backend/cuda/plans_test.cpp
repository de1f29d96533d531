// Convolutions by execution plans of cuDNN's backend API: which engines may compute, what is chosen
// among them and the algorithms of the other API, and what becomes of failures. Over the emulation
// and the fake of cuDNN; that results are right the contract suite says too (contract_cuda_plans).
#include <cmath>
#include <fstream>
#include <sstream>

#include "backend/cuda/libraries_fixture.h"
#include "backend/fused/fused_conv.h"
#include "core/cache_file.h"
#include "distance.h"

namespace brim {
namespace {

using tests::distance;
using tests::Lines;

struct Sizes {
  int64_t height;  // that no other test has: another problem
  int64_t groups = 1;
  Conv2dOptions options = {};
};

struct CudaLibrariesPlans : tests::CudaLibraries {
  /// y, dx, dw of a convolution and its bias.
  struct Results {
    Tensor y, dx, dw;
  };
  static Results compute(const Tensor& x_data, const Tensor& w_data, const Tensor& bias,
                         const Conv2dOptions& options) {
    Tensor x = x_data.detach().set_requires_grad(), w = w_data.detach().set_requires_grad();
    const Tensor y = conv2d(x, w, bias, options);
    sum(y * y).backward();
    return {y.detach(), x.grad(), w.grad()};
  }
  /// The largest difference, of each result as a part of its largest element.
  static double furthest(const Results& a, const Results& b) {
    const auto one = [](const Tensor& x, const Tensor& y) {
      return distance(x, y) / max(abs(y.to(Device::cpu()).to(f64))).item();
    };
    return std::max({one(a.y, b.y), one(a.dx, b.dx), one(a.dw, b.dw)});
  }
  /// Computes it on both devices; returns what cuDNN was asked for. It was met before where
  /// `again`.
  Lines check(const Sizes& s, DType dtype = f32, MemoryFormat format = MemoryFormat::nchw) {
    const Tensor x = randn({2, 4, s.height, 6}).to(dtype);
    const Tensor w = randn({6, 4 / s.groups, 3, 3}).to(dtype), bias = randn({6}).to(dtype);
    (void)asked();
    const Results got =
        compute(x.to(cuda).to(format), w.to(cuda).to(format), bias.to(cuda), s.options);
    const Results want = compute(x.to(f32), w.to(f32), bias.to(f32), s.options);
    EXPECT_LT(furthest(got, want), dtype == f16 ? 1e-2 : dtype == bf16 ? 5e-2 : 1e-5);
    return asked();
  }
  /// The lines of the second time, which measures nothing.
  Lines chosen(const Sizes& s, DType dtype = f32, MemoryFormat format = MemoryFormat::nchw) {
    (void)check(s, dtype, format);
    return check(s, dtype, format);
  }
};

TEST_F(CudaLibrariesPlans, ComputeWhereTheyAreTheFastest) {
  let("fast-plans");
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const Lines lines = chosen({101}, dtype, format);
      const std::string where = format == MemoryFormat::nhwc ? " nhwc" : " nchw";
      const char* type = dtype == f32 ? "0" : dtype == f64 ? "1" : dtype == f16 ? "2" : "9";
      const std::string tail = std::string(" type ") + type + " engine 7" + where;
      EXPECT_EQ(count(lines, "plan forward bias" + tail), 1) << name(dtype);
      if (format == MemoryFormat::nhwc) continue;  // gradients copy weights, and are brim's own
      EXPECT_EQ(lines.size(), 3U) << name(dtype);
      EXPECT_EQ(count(lines, "plan grad_x" + tail), 1) << name(dtype);
      EXPECT_EQ(count(lines, "plan grad_weight" + tail), 1) << name(dtype);
    }
}

TEST_F(CudaLibrariesPlans, KnowStridesPaddingAndGroups) {
  let("fast-plans");
  for (const Sizes& s : {Sizes{102, 2, {.stride = 2, .padding = 1, .groups = 2}},
                         Sizes{103, 1, {.stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 2}}}})
    EXPECT_EQ(count(chosen(s), "plan "), 3);
}

TEST_F(CudaLibrariesPlans, AreNotChosenWhereAlgorithmsAreFaster) {
  const Lines measured = check({104});
  EXPECT_GT(count(measured, "plan forward bias"), 0);
  EXPECT_GT(count(measured, "plan forward type"), 0);
  const Lines lines = check({104});
  EXPECT_EQ(count(lines, "plan "), 0);
  EXPECT_EQ(count(lines, "cudnnConvolutionBackward"), 2);
}

TEST_F(CudaLibrariesPlans, AreOfEnginesThatRepeatThemselvesAndRoundNothing) {
  let("fast-plans");
  const auto engines = [&](DType dtype, int64_t height) {
    const Lines lines = check({height}, dtype);
    std::string met;
    for (int i = 0; i < 8; ++i)
      if (count(lines, " engine " + std::to_string(i) + " ") > 0) met += std::to_string(i);
    return met;
  };
  EXPECT_EQ(engines(f32, 105), "57");  // 6 would multiply as TF32
  EXPECT_EQ(engines(f64, 105), "567");
  EXPECT_EQ(engines(f16, 105), "67");  // 5 is Winograd's
  EXPECT_EQ(engines(bf16, 105), "67");
  // With TF32 results are not those of the CPU.
  const Tf32 scope;
  const Tensor x = randn({1, 4, 106, 6}).to(cuda), w = randn({6, 4, 3, 3}).to(cuda);
  (void)asked();
  (void)conv2d(x, w);
  EXPECT_GT(count(asked(), "plan forward type 0 engine 6"), 0);
}

TEST_F(CudaLibrariesPlans, AreKeptByEngineAndKnobs) {
  let("fast-plans");
  (void)check({107});
  std::ifstream file(cache_path("cuda_algorithms.json"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("\"plan bias 7 2=16\""), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"plan 7 2=16\""), std::string::npos) << text.str();
}

TEST_F(CudaLibrariesPlans, LeaveABiasThatIsNotAlignedToBrim) {
  let("fast-plans");
  const Tensor x = randn({1, 4, 108, 6}), w = randn({6, 4, 3, 3}), bias = randn({7});
  const Tensor odd = bias.to(cuda).slice(0, 1, 7);
  (void)asked();
  EXPECT_LT(distance(conv2d(x.to(cuda), w.to(cuda), odd), conv2d(x, w, bias.slice(0, 1, 7))), 1e-4);
  const Lines lines = asked();  // of measuring
  EXPECT_GT(count(lines, "plan forward type 0 engine 7"), 0);
  EXPECT_EQ(count(lines, "bias"), 0);
}

/// What cuDNN is asked for by conv2d_relu of `height` rows, whose results are compared with the
/// CPU's.
struct CudaLibrariesReluPlans : CudaLibrariesPlans {
  Lines check_relu(int64_t height, DType dtype, const Tensor& bias) {
    static const backend::ConvReluKernel kernel("conv2d_relu");
    const Tensor x = randn({2, 4, height, 6}).to(dtype), w = randn({6, 4, 3, 3}).to(dtype);
    const Tensor on_cuda = bias.defined() ? bias.to(cuda) : bias;
    Tensor y = zeros({2, 6, height - 2, 4}, {.dtype = dtype, .device = cuda});
    (void)asked();
    kernel(cuda, dtype, x.to(cuda), w.to(cuda), shifted_bias(on_cuda), y,
           {.n = 2,
            .c = 4,
            .h = height,
            .w = 6,
            .o = 6,
            .kh = 3,
            .kw = 3,
            .oh = height - 2,
            .ow = 4,
            .stride = 1,
            .padding = 0,
            .dilation = 1,
            .groups = 1});
    const Tensor wide = bias.defined() ? shifted_bias(bias).to(f32) : Tensor();
    const Tensor want = relu(conv2d(x.to(f32), w.to(f32), wide));
    EXPECT_LT(distance(y, want), dtype == f16 ? 2e-2 : dtype == bf16 ? 1e-1 : 1e-4);
    EXPECT_EQ(min(y.to(Device::cpu()).to(f32)).item(), 0);
    return asked();
  }
  /// The last six of seven, which do not begin at a multiple of 16 bytes; six as they are.
  static Tensor shifted_bias(const Tensor& bias) {
    return bias.defined() && bias.numel() == 7 ? bias.slice(0, 1, 7) : bias;
  }
};

TEST_F(CudaLibrariesReluPlans, HaveItInTheGraph) {
  let("fast-plans");
  int64_t height = 201;
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const bool has_bias : {true, false}) {
      const Tensor bias = has_bias ? randn({6}).to(dtype) : Tensor();
      (void)check_relu(height, dtype, bias);
      const Lines lines = check_relu(height++, dtype, bias);
      EXPECT_EQ(lines.size(), 1U);
      EXPECT_EQ(count(lines, has_bias ? "plan forward bias relu type" : "plan forward relu type"),
                1)
          << name(dtype);
    }
}

TEST_F(CudaLibrariesReluPlans, AreOtherProblemsThanThoseWithout) {
  let("fast-plans");
  const Tensor bias = randn({6});
  (void)check_relu(211, f32, bias);
  (void)asked();
  const Tensor x = randn({2, 4, 211, 6}), w = randn({6, 4, 3, 3});
  EXPECT_LT(distance(conv2d(x.to(cuda), w.to(cuda), bias.to(cuda)), conv2d(x, w, bias)), 1e-4);
  const Lines lines = asked();  // measured anew
  EXPECT_GT(count(lines, "plan forward bias type"), 0);
  EXPECT_EQ(count(lines, "relu"), 0);
}

TEST_F(CudaLibrariesReluPlans, LeaveItToBrimWhereAlgorithmsAreFaster) {
  const Tensor bias = randn({6});
  EXPECT_GT(count(check_relu(212, f32, bias), "plan forward bias relu"), 0);
  const Lines lines = check_relu(212, f32, bias);
  EXPECT_EQ(count(lines, "plan "), 0);
}

TEST_F(CudaLibrariesReluPlans, LeaveABiasThatIsNotAlignedToBrim) {
  let("fast-plans");
  const Lines lines = check_relu(213, f32, randn({7}));
  EXPECT_GT(count(lines, "plan forward type 0 engine 7"), 0);
  EXPECT_EQ(count(lines, "bias") + count(lines, "relu"), 0);
}

TEST_F(CudaLibrariesReluPlans, ThatFailAreLeftOut) {
  int64_t height = 214;
  for (const char* failure : {"fast-plans plans-fail", "no-plans", "heuristics-fail"}) {
    let(failure);
    const Tensor bias = randn({6});
    (void)check_relu(height, f32, bias);
    EXPECT_EQ(count(check_relu(height++, f32, bias), "plan "), 0) << failure;
  }
  let("no-plans heuristics-refuse");  // and no algorithm: brim's own kernel has the ReLU
  EXPECT_TRUE(check_relu(height, f32, randn({6})).empty());
}

TEST_F(CudaLibrariesPlans, AreCapturedInGraphs) {
  let("fast-plans");
  const Tensor x = randn({2, 4, 109, 6}).to(cuda), w = randn({6, 4, 3, 3}).to(cuda);
  const Tensor bias = randn({6}).to(cuda);
  auto step = compile([&](const Tensor& in) { return conv2d(in, w, bias) * 2; });
  const Tensor want = conv2d(x, w, bias) * 2;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(distance(step(x), want), 0) << i;
  (void)asked();  // while it was measured
  for (int i = 0; i < 3; ++i) EXPECT_EQ(distance(step(x), want), 0) << i;
  EXPECT_GT(step.stats().graph_replays, 0);
  EXPECT_GT(count(asked(), "plan forward bias"), 0);
}

TEST_F(CudaLibrariesPlans, ThatFailAreLeftOut) {
  let("fast-plans plans-fail");
  EXPECT_EQ(count(chosen({110}), "cudnnConvolutionBackward"), 2);
  let("fast-plans plans-need-much");  // more than may be worked in
  const Lines lines = check({111});
  EXPECT_EQ(count(lines, "plan "), 0);
  EXPECT_GT(count(lines, "cudnnConvolution"), 0);
  let("no-plans");  // is no failure
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(count(chosen({112}), "cudnnConvolutionBackward"), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(CudaLibrariesPlans, FailuresOfTheirApiAreToldOnce) {
  int told = 0;
  int64_t height = 113;
  for (const char* failure : {"backend-fails", "heuristics-fail", "backend-fails"}) {
    let(failure);
    ::testing::internal::CaptureStderr();
    const Lines lines = chosen({height++});
    const std::string said = ::testing::internal::GetCapturedStderr();
    told += said.find("do without cuDNN's execution plans") != std::string::npos;
    EXPECT_EQ(count(lines, "cudnnConvolutionBackward"), 2) << failure;
  }
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace brim
