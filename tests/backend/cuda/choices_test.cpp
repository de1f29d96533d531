// What is chosen to compute a problem on CUDA devices: by time on the device, among what works.
// Over the emulation and fakes of NVIDIA's libraries, which say how long their work takes.
#include <brim/autograd/autograd.h>
#include <brim/core/allocator.h>
#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>

#include "backend/cuda/libraries_fixture.h"
#include "core/cache_file.h"
#include "core/runtime.h"
#include "environment.h"

namespace brim {
namespace {

struct CudaLibrariesChoice : tests::CudaLibraries {
  static Tensor cpu(const Tensor& t) { return t.detach().to(Device::cpu()); }
  static void expect_near(const Tensor& y, const Tensor& expected, double tolerance = 1e-4) {
    ASSERT_EQ(y.shape(), expected.shape());
    const auto a = cpu(y).to(f64).contiguous().to_vector<double>();
    const auto b = cpu(expected).to(f64).contiguous().to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i)
      if (std::isnan(b[i]))
        EXPECT_TRUE(std::isnan(a[i])) << i;
      else
        EXPECT_NEAR(a[i], b[i], tolerance) << i;
  }
  /// A product and a convolution of sizes that no other test has, twice: right each time, the last
  /// ones by these algorithms of cuBLASLt and cuDNN.
  void check(int64_t size, const std::string& product, const std::string& convolution) {
    const Tensor a = randn({size, 9}).to(cuda), b = randn({9, 12}).to(cuda);
    const Tensor x = randn({1, 2, size, 6}).to(cuda), w = randn({3, 2, 2, 2}).to(cuda);
    for (int i = 0; i < 2; ++i) {
      (void)asked();
      expect_near(matmul(a, b), matmul(cpu(a), cpu(b)));
      expect_near(conv2d(x, w), conv2d(cpu(x), cpu(w)));
    }
    const tests::Lines lines = asked();
    EXPECT_EQ(lines.size(), 2u);
    EXPECT_EQ(count(lines, "matmul compute 68 type 0 epilogue 1 algorithm " + product), 1);
    EXPECT_EQ(count(lines, "Forward type 0 math 3 algorithm " + convolution), 1);
  }
};

TEST_F(CudaLibrariesChoice, IsTheFastest) { check(41, "1", "1"); }

TEST_F(CudaLibrariesChoice, IsNoneThatFails) {
  let("1-fails");
  check(42, "2", "0");
}

TEST_F(CudaLibrariesChoice, IsNoneThatCannotBePartOfAGraph) {
  let("1-fails-in-graphs");
  check(43, "2", "0");
}

TEST_F(CudaLibrariesChoice, IsNoneWithoutRoom) {
  let("1-needs-much");
  const tests::Environment memory("BRIM_EMULATED_MEMORY", "268435456");
  check(44, "1", "0");
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelWhileThereIsNoRoom) {
  const Tensor x = randn({1, 2, 50, 6}), w = randn({3, 2, 2, 2});
  const Tensor a = randn({50, 9}), b = randn({9, 12});
  const Tensor x_there = x.to(cuda), w_there = w.to(cuda);
  const Tensor a_there = a.to(cuda), b_there = b.to(cuda);
  const auto compute = [&] {
    ::testing::internal::CaptureStderr();
    expect_near(conv2d(x_there, w_there), conv2d(x, w));
    expect_near(matmul(a_there, b_there), matmul(a, b));
    return ::testing::internal::GetCapturedStderr();
  };
  (void)compute();  // chosen are algorithms 1, which work in a MiB
  Allocator& allocator = Allocator::of(cuda);
  allocator.release_cached();
  allocator.set_limit(allocator.stats().live + (int64_t{1} << 19));
  (void)asked();
  const std::string said = compute();
  for (const char* part :
       {"[conv2d] cuDNN's algorithm for x (1, 2, 50, 6) has no room for the 1048576 bytes",
        "[matmul] cuBLASLt's algorithm for 50 x 9 x 12 has no room for the 1048576 bytes",
        "are free)", "Allocator::set_limit"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  EXPECT_EQ(compute(), "");
  EXPECT_EQ(asked(), tests::Lines());
  allocator.set_limit(0);
  tests::Lines lines;
  int calls = 0;  // until it is tried again
  for (; lines.empty() && calls < 1000; ++calls) {
    EXPECT_EQ(compute(), "");
    lines = asked();
  }
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(count(lines, "Forward type 0 math 3 algorithm 1"), 1);
  EXPECT_EQ(count(lines, "matmul compute 68 type 0 epilogue 1 algorithm 1"), 1);
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelInPlansWhileThereIsNoRoom) {
  const Tensor x = randn({1, 2, 52, 6}), w = randn({3, 2, 2, 2});
  const Tensor x_there = x.to(cuda), w_there = w.to(cuda);
  (void)conv2d(x_there, w_there);
  auto step = compile([&](const Tensor& t) { return conv2d(t, w_there); });
  Allocator& allocator = Allocator::of(cuda);
  allocator.release_cached();
  allocator.set_limit(allocator.stats().live + (int64_t{1} << 19));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) expect_near(step(x_there), conv2d(x, w));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("[conv2d] cuDNN's algorithm for x (1, 2, 52, 6) has no room"),
            std::string::npos)
      << said;
  allocator.set_limit(0);
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelForAddressesThatCudnnDoesNotTake) {
  const Tensor x = randn({2, 2, 51, 6}), w = randn({3, 2, 2, 2});
  const Tensor flat = cat({zeros({1}), x.reshape({x.numel()})}, 0).to(cuda);
  const Tensor odd = flat.slice(0, 1, flat.numel()).reshape(x.shape());
  const auto convolve = [&] {
    ::testing::internal::CaptureStderr();
    expect_near(conv2d(odd, w.to(cuda)), conv2d(x, w));
    return ::testing::internal::GetCapturedStderr();
  };
  (void)asked();
  const std::string said = convolve();
  EXPECT_NE(said.find("multiple of 16 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("clone()"), std::string::npos) << said;
  EXPECT_EQ(convolve(), "");
  EXPECT_EQ(count(asked(), "Forward"), 0);
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelWhereAllFail) {
  let("cublasLtMatmul cudnnConvolutionForward no-plans");
  const Tensor a = randn({45, 9}).to(cuda), b = randn({9, 12}).to(cuda);
  const Tensor x = randn({1, 2, 45, 6}).to(cuda), w = randn({3, 2, 2, 2}).to(cuda);
  for (const bool again : {false, true}) {
    ::testing::internal::CaptureStderr();
    expect_near(matmul(a, b), matmul(cpu(a), cpu(b)));
    expect_near(conv2d(x, w), conv2d(cpu(x), cpu(w)));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("[matmul] cuBLASLt has no algorithm") == std::string::npos, again) << said;
    EXPECT_EQ(said.find("[conv2d] cuDNN has no algorithm") == std::string::npos, again) << said;
  }
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelWhereCudnnDoesNotKnowTheProblem) {
  let("heuristics-refuse no-plans");
  const Tensor x = randn({1, 2, 47, 6}), w = randn({3, 2, 2, 2});
  ::testing::internal::CaptureStderr();
  expect_near(conv2d(x.to(cuda), w.to(cuda)), conv2d(x, w));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("[conv2d] cuDNN has no algorithm"), std::string::npos) << said;
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelWhereALibraryFailsWhenAsked) {
  let("workspace-fails heuristic-fails pooling-descriptor-fails");
  const Tensor a = randn({71, 9}).to(cuda), b = randn({9, 12}).to(cuda);
  const Tensor x = randn({1, 2, 71, 6}), w = randn({3, 2, 2, 2});
  for (const bool again : {false, true}) {
    ::testing::internal::CaptureStderr();
    expect_near(conv2d(x.to(cuda), w.to(cuda)), conv2d(x, w));
    expect_near(matmul(a, b), matmul(cpu(a), cpu(b)));
    expect_near(avg_pool2d(x.to(cuda), 2), avg_pool2d(x, 2));
    const std::string said = ::testing::internal::GetCapturedStderr();
    for (const char* warning :
         {"[conv2d] cuDNN: cudnnGetConvolution*WorkspaceSize failed: CUDNN_STATUS_BAD_PARAM: the "
          "fake says so: brim's own kernel computes x (1, 2, 71, 6), weight (3, 2, 2, 2) in f32 "
          "nchw",
          "[matmul] cuBLASLt: cublasLtMatmulAlgoGetHeuristic failed: ",
          "[avg_pool2d] cuDNN: cudnnSetPooling2dDescriptor failed: "})
      EXPECT_EQ(said.find(warning) == std::string::npos, again) << said;
  }
}

TEST_F(CudaLibrariesChoice, IsBrimsOwnKernelWhereIntIsTooShort) {
  constexpr int64_t kStep = (int64_t{1} << 32) + 1;  // beyond x; 1, if it is cut
  const Tensor x = randn({1, 2, 6, 7}), w = randn({3, 2, 1, 2});
  const Pair rows(kStep, 1);  // of which the kernel has one
  expect_near(conv2d(x.to(cuda), w.to(cuda), {}, {.dilation = rows}), conv2d(x, w));
  expect_near(avg_pool2d(x.to(cuda), 2, {.stride = kStep}), avg_pool2d(x, 2, {.stride = 7}));
  EXPECT_TRUE(asked().empty());
}

TEST_F(CudaLibrariesChoice, NewProblemsInAGraphAreComputedByOwnKernels) {
  const Tensor a = randn({46, 9}).to(cuda), b = randn({9, 12}).to(cuda);
  const Tensor x = randn({1, 2, 46, 6}).to(cuda), w = randn({3, 2, 2, 2}).to(cuda);
  Tensor y = zeros({46, 12}, {.device = cuda}), z = zeros({1, 3, 45, 5}, {.device = cuda});
  int calls = 0;
  std::shared_ptr<void> kept;
  const auto run = [&] {
    runtime(DeviceKind::cuda)
        .launch_as_one(Stream::current(cuda),
                       {.queue =
                            [&](int) {
                              // New where the graph is captured.
                              if (++calls < 3) return true;
                              y.copy_(matmul(a, b));
                              z.copy_(conv2d(x, w));
                              return true;
                            }},
                       kept);
  };
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) run();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(calls, 3);
  const RepeatedStats stats = runtime(DeviceKind::cuda).repeated(kept);
  EXPECT_EQ(stats.graphs, 1) << stats.why_not;
  EXPECT_TRUE(asked().empty());
  const std::string warning = "[matmul] a problem is met for the first time while a graph";
  EXPECT_NE(said.find(warning), std::string::npos) << said;
  EXPECT_EQ(said.find("[conv2d]"), std::string::npos) << said;
  expect_near(y, matmul(cpu(a), cpu(b)));
  expect_near(z, conv2d(cpu(x), cpu(w)));
}

TEST_F(CudaLibrariesChoice, AveragesAreByCudnnWhereItsDefinitionIsBrims) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      Tensor x = randn({2, 5, 9, 8}).to(dtype);
      x.slice(0, 0, 1).slice(1, 0, 1).slice(2, 4, 5).slice(3, 3, 4).fill_(nan);
      const Tensor there = x.to(cuda).to(format);
      const auto by_cudnn = [&](const auto& pool) {
        (void)asked();
        for (int i = 0; i < 2; ++i) expect_near(pool(there), pool(x), dtype == bf16 ? 0.02 : 2e-3);
        return count(asked(), std::string("cudnnPoolingForward type ")) > 0;
      };
      for (const bool padded : {false, true})
        EXPECT_TRUE(by_cudnn([&](const Tensor& t) {
          return avg_pool2d(t, 3, {.stride = 2, .padding = 1, .count_include_pad = padded});
        }));
      // As the library counts windows beyond the padding in another way.
      EXPECT_FALSE(by_cudnn(
          [](const Tensor& t) { return avg_pool2d(t, 3, {.stride = 2, .ceil_mode = true}); }));
      EXPECT_TRUE(by_cudnn([](const Tensor& t) { return adaptive_avg_pool2d(t, {3, 1}); }));
      EXPECT_FALSE(by_cudnn([](const Tensor& t) { return adaptive_avg_pool2d(t, {2, 3}); }));
    }
}

struct Normalised {
  Tensor y, dx, dweight, dbias, mean, var;
};
Normalised normalised(Device device, const Tensor& given, MemoryFormat format, DType parameters) {
  const int64_t c = given.shape()[1];
  manual_seed(3);
  Tensor x = given.to(device).to(format).set_requires_grad();
  Tensor weight = randn({c}).to(parameters).to(device).set_requires_grad();
  Tensor bias = randn({c}).to(parameters).to(device).set_requires_grad();
  const Tensor dy = randn(given.shape()).to(given.dtype()).to(device).to(format);
  Tensor mean = zeros({c}, {.dtype = parameters, .device = device});
  Tensor var = ones({c}, {.dtype = parameters, .device = device});
  Tensor y;
  for (int i = 0; i < 3; ++i)
    y = batch_norm(x, weight, bias, mean, var, {.training = true, .momentum = 0.3});
  y.backward(dy);
  return {y.detach(), x.grad(), weight.grad(), bias.grad(), mean, var};
}

Normalised normalised(Device device, const Tensor& given, MemoryFormat format) {
  return normalised(device, given, format, given.dtype());
}

TEST_F(CudaLibrariesChoice, NormalisationInTrainingMayBeCudnns) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const Tensor x = (randn({3, 5, 4, 6}) * 2.0 + 7.0).to(dtype);
      const DType parameters = dtype == f64 ? f64 : f32;
      const Normalised a = normalised(cuda, x, format, parameters);
      const tests::Lines lines = asked();
      const Normalised b = normalised(Device::cpu(), x, format, parameters);
      EXPECT_GT(count(lines, "cudnnBatchNormalizationForwardTraining"), 3);
      EXPECT_GT(count(lines, "cudnnBatchNormalizationBackward"), 0);
      for (const auto field : {&Normalised::y, &Normalised::dx})
        expect_near(a.*field, b.*field, dtype == bf16 ? 0.04 : dtype == f16 ? 5e-3 : 1e-3);
      for (const auto field :
           {&Normalised::dweight, &Normalised::dbias, &Normalised::mean, &Normalised::var})
        expect_near(a.*field, b.*field, 1e-3);
    }
  (void)normalised(cuda, randn({3, 5, 4, 6}).to(f16), MemoryFormat::nchw);
  EXPECT_TRUE(asked().empty());  // its parameters would have to be f32
}

TEST_F(CudaLibrariesChoice, NormalisationWithOtherStatisticsIsNotUsed) {
  let("batch-norm-differs");
  const Tensor x = randn({3, 7, 4, 6});
  const Normalised a = normalised(cuda, x, MemoryFormat::nchw);
  const Normalised b = normalised(Device::cpu(), x, MemoryFormat::nchw);
  EXPECT_EQ(count(asked(), "cudnnBatchNormalizationForwardTraining"), 1);
  expect_near(a.y, b.y);
  expect_near(a.var, b.var);
}

TEST_F(CudaLibrariesChoice, WhatIsChosenFirstStaysAlsoFromZeros) {
  const Tensor x = randn({2, 3, 11, 10});
  (void)avg_pool2d(zeros({2, 3, 11, 10}, {.device = cuda}), 2);
  for (int i = 0; i < 2; ++i) expect_near(avg_pool2d(x.to(cuda), 2), avg_pool2d(x, 2));
  EXPECT_TRUE(asked().empty());
  // NaN alone shows nothing, either.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  (void)avg_pool2d(full({2, 3, 12, 10}, nan, {.device = cuda}), 2);
  EXPECT_TRUE(asked().empty());
}

TEST_F(CudaLibrariesChoice, DifferencesAtTheEndOfLargeResultsAreSeen) {
  let("batch-norm-differs-at-end");
  const Tensor x = randn({1, 5, 40, 41});
  const Normalised a = normalised(cuda, x, MemoryFormat::nchw);
  const Normalised b = normalised(Device::cpu(), x, MemoryFormat::nchw);
  EXPECT_EQ(count(asked(), "cudnnBatchNormalizationForwardTraining"), 1);
  expect_near(a.y, b.y);
}

TEST_F(CudaLibrariesChoice, GradientsThatAreRoundingDoNotTellTheLibraryFromOwnKernels) {
  Tensor x = (randn({3, 4, 5, 7}) + 2.0).to(cuda).set_requires_grad();
  Tensor w = ones({4}, {.device = cuda}), b = zeros({4}, {.device = cuda});
  const Tensor dy = randn({3, 4, 5, 7});
  const Tensor centred = dy - mean(dy, {0, 2, 3}, true);  // dbias is 0
  w.set_requires_grad();
  b.set_requires_grad();
  const Tensor y = batch_norm(x, w, b, {}, {}, {.training = true});
  y.backward(centred.to(cuda));
  EXPECT_GT(count(asked(), "cudnnBatchNormalizationBackward"), 1);
}

TEST_F(CudaLibrariesChoice, TimeDoesNotCountWhereCudnnIsPreferred) {
  let("slow");
  const auto calls = [&](int64_t size) {
    const Tensor x = randn({2, 3, size, 10});
    (void)avg_pool2d(x.to(cuda), 2);
    (void)asked();
    expect_near(avg_pool2d(x.to(cuda), 2), avg_pool2d(x, 2));
    return asked().size();
  };
  EXPECT_EQ(calls(14), 0u);
  const tests::Environment prefer("BRIM_CUDA_PREFER_CUDNN", "1");
  EXPECT_EQ(calls(15), 1u);
}

TEST_F(CudaLibrariesChoice, DevicesOfAKindShareTheFile) {
  (void)avg_pool2d(randn({2, 3, 13, 10}).to(cuda), 2);
  std::ifstream file(cache_path("cuda_algorithms.json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // dtype, format, padding counted, sizes: no number of the device.
  const std::string problem = fmt::format(
      "\"cudnnPoolingForward {} 0 1 2 3 13 10 6 5 2 2 2 2 0 0\"", static_cast<int>(f32));
  EXPECT_NE(text.find(problem), std::string::npos) << text;
}

TEST_F(CudaLibrariesChoice, BiasOfAConvolutionIsAddedInBothFormats) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const int64_t channels : {3, 16}) {
        const Tensor x = randn({2, 4, 5, 6}).to(dtype), w = randn({channels, 4, 3, 3}).to(dtype);
        const Tensor b = randn({channels}).to(dtype);
        expect_near(conv2d(x.to(cuda).to(format), w.to(cuda), b.to(cuda)), conv2d(x, w, b),
                    dtype == bf16  ? 0.2
                    : dtype == f16 ? 0.03
                                   : 1e-4);
      }
}

}  // namespace
}  // namespace brim
