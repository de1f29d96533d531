// What is asked of cuBLASLt and cuDNN: precision, epilogues, algorithms, graphs, errors. That the
// results are right the contract suite says over the same fakes.
#include <cmath>
#include <limits>
#include <optional>

#include "backend/cuda/libraries_fixture.h"
#include "backend/fused/fused_linear.h"
#include "distance.h"
#include "environment.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim {
namespace {

using tests::CudaLibraries;
using tests::distance;
using tests::Lines;
using tests::message_of;

/// Choices are kept in a folder of the test's own, so that each run measures.
class OwnCache : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("BRIM_CUDA_LIBRARIES") && !std::getenv("BRIM_TEST_CACHE"))
      cache_.emplace("XDG_CACHE_HOME", folder_.emplace().path());
  }

 private:
  std::optional<tests::TemporaryFolder> folder_;
  std::optional<tests::Environment> cache_;
};
[[maybe_unused]] const auto* const own_cache = ::testing::AddGlobalTestEnvironment(new OwnCache);

Tensor on(Device device, const Tensor& x, DType dtype = f32) { return x.to(dtype).to(device); }
bool all_nan(const Tensor& t) {
  for (const float x : t.to(Device::cpu()).to(f32).to_vector<float>())
    if (!std::isnan(x)) return false;
  return true;
}

TEST_F(CudaLibraries, Tf32IsOffUnlessAskedFor) {
  // 1 + 2^-12 is 1 in TF32.
  const Tensor x = on(cuda, full({20, 20}, 1 + 0x1p-12)), id = on(cuda, eye(20));
  const Tensor image = x.reshape({1, 1, 20, 20}), one = on(cuda, ones({1, 1, 1, 1}));
  const auto compute = [&] {
    EXPECT_EQ(distance(matmul(x, id), x), Tf32::allowed() ? 0x1p-12 : 0);
    EXPECT_EQ(distance(conv2d(image, one), image), Tf32::allowed() ? 0x1p-12 : 0);
    return asked();
  };
  Lines lines = compute();
  EXPECT_GT(count(lines, "matmul compute 68 type 0 "), 0);
  EXPECT_EQ(count(lines, "matmul compute 77"), 0);
  EXPECT_EQ(count(lines, "forward math 3"), 1);  // plans for FMA, too
  EXPECT_GT(count(lines, "cudnnConvolutionForward type 0 math 3"), 0);
  EXPECT_EQ(count(lines, "math 0"), 0);
  {
    const Tf32 scope;
    lines = compute();
    EXPECT_GT(count(lines, "matmul compute 77 type 0 "), 0);
    EXPECT_EQ(count(lines, "matmul compute 68"), 0);
    EXPECT_EQ(count(lines, "forward math 0"), 1);
    EXPECT_GT(count(lines, "cudnnConvolutionForward type 0 math 0"), 0);
    EXPECT_EQ(count(lines, "math 3"), 0);
    // Other types have nothing to do with it.
    (void)matmul(on(cuda, randn({20, 20}), f64), on(cuda, eye(20), f64));
    (void)matmul(on(cuda, randn({20, 20}), bf16), on(cuda, eye(20), bf16));
    (void)conv2d(image.to(f64), one.to(f64));
    lines = asked();
    EXPECT_GT(count(lines, "matmul compute 70 type 1 "), 0);
    EXPECT_GT(count(lines, "matmul compute 68 type 14 "), 0);
    EXPECT_GT(count(lines, "cudnnConvolutionForward type 1 math 3"), 0);
  }
  EXPECT_EQ(count(compute(), "77"), 0);
  EXPECT_EQ(Tf32::missing(cuda), "");
  EXPECT_EQ(Tf32::missing(Device::cpu()), "");
}

TEST_F(CudaLibraries, SixteenBitsAreForTensorCores) {
  for (const DType dtype : {f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      Tensor x = on(cuda, randn({2, 8, 6, 6}), dtype).to(format).set_requires_grad();
      Tensor w = on(cuda, randn({8, 8, 3, 3}), dtype).set_requires_grad();
      const Tensor y = conv2d(x, w);
      y.backward(ones(y.shape(), {.dtype = dtype, .device = cuda}).to(format));
      const Lines lines = asked();
      const std::string tail = std::string(" type ") + (dtype == f16 ? "2" : "9") + " math 1 ";
      const std::string where = format == MemoryFormat::nhwc ? " nhwc" : " nchw";
      // Of several the fastest that is allowed.
      EXPECT_GE(count(lines, "cudnnConvolutionForward" + tail + "algorithm 1" + where), 1);
      EXPECT_GE(count(lines, "cudnnConvolutionBackwardData" + tail + "algorithm 1" + where), 1);
      EXPECT_GE(count(lines, "cudnnConvolutionBackwardFilter" + tail + "algorithm 1" + where), 1);
    }
}

TEST_F(CudaLibraries, WinogradIsForNumbersWiderThan16Bits) {
  let("winograd");
  const Tensor image = randn({2, 8, 7, 6}), weight = randn({8, 8, 3, 3});
  for (const DType dtype : {f32, f16, bf16}) {
    Tensor x = on(cuda, image, dtype).set_requires_grad();
    conv2d(x, on(cuda, weight, dtype).set_requires_grad())
        .backward(ones({2, 8, 5, 4}, {.dtype = dtype, .device = cuda}));
    const Lines lines = asked();
    const int wide = dtype == f32;
    EXPECT_EQ(count(lines, "Forward type 0 math 3 algorithm 7") > 0, wide) << name(dtype);
    EXPECT_EQ(count(lines, " algorithm 7") > 0, wide) << name(dtype);
    EXPECT_EQ(count(lines, " algorithm 4") > 0, wide) << name(dtype);
    EXPECT_GT(count(lines, "cudnnConvolutionBackwardFilter"), 0);
  }
}

// Images of one pixel are row-major and nhwc at once: as the latter, weights need no copy.
TEST_F(CudaLibraries, WeightsDecideForImagesOfOnePixel) {
  const Tensor x = on(cuda, randn({4, 32, 1, 1})), w = on(cuda, randn({32, 32, 3, 3}));
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const Tensor y = conv2d(x, w.to(format), {}, {.padding = 1});
    const std::string where = format == MemoryFormat::nhwc ? " nhwc" : " nchw";
    const Lines lines = asked();
    EXPECT_GE(count(lines, "cudnnConvolutionForward"), 1);
    EXPECT_EQ(count(lines, "cudnnConvolutionForward") + count(lines, "plan forward"),
              count(lines, where));
    EXPECT_LT(distance(y, conv2d(x.to(Device::cpu()), w.to(Device::cpu()), {}, {.padding = 1})),
              1e-4);
  }
}

TEST_F(CudaLibraries, ProblemsAreMeasuredOnce) {
  const Tensor a = on(cuda, randn({33, 17})), b = on(cuda, randn({17, 24}));
  (void)matmul(a, b);
  Lines lines = asked();
  EXPECT_EQ(count(lines, "heuristic"), 1);
  EXPECT_GT(count(lines, "algorithm 0"), 0);
  EXPECT_GT(count(lines, "algorithm 1"), 0);
  EXPECT_EQ(count(lines, "algorithm 3"), 0);  // needs more memory than there is
  (void)matmul(on(cuda, randn({33, 17})), b);
  lines = asked();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("algorithm 1"), std::string::npos) << lines[0];
  // Not aligned to 16 bytes: algorithm 1 cannot.
  const Tensor odd = on(cuda, randn({33 * 17 + 1})).slice(0, 1, 33 * 17 + 1).reshape({33, 17});
  EXPECT_LT(distance(matmul(odd, b), matmul(odd.to(Device::cpu()), b.to(Device::cpu()))), 1e-4);
  lines = asked();
  EXPECT_EQ(count(lines, "algorithm 1"), 0);
  EXPECT_NE(lines.back().find("algorithm 2"), std::string::npos) << lines.back();
}

TEST_F(CudaLibraries, BiasAndReluAreEpilogues) {
  const backend::LinearKernel plain("linear"), rectified("linear_relu");
  for (const DType dtype : {f32, f16, bf16}) {
    // More rows than brim's own kernel for few takes.
    Tensor x = on(cuda, randn({130, 8}), dtype), w = on(cuda, randn({16, 8}), dtype);
    const Tensor bias = on(cuda, randn({16}), dtype);
    Tensor y = Tensor::empty({130, 16}, dtype, cuda);
    plain(cuda, dtype, x, w, bias, y);
    EXPECT_NE(asked().back().find("epilogue 4"), std::string::npos);
    rectified(cuda, dtype, x, w, bias, y);
    EXPECT_NE(asked().back().find("epilogue 6"), std::string::npos);
    const Tensor want = relu(linear(x, w, bias));
    EXPECT_EQ(distance(y, want), 0);
    const Tensor nan = full({16}, std::numeric_limits<float>::quiet_NaN());
    rectified(cuda, dtype, x, w, on(cuda, nan, dtype), y);
    EXPECT_TRUE(all_nan(y));
  }
  (void)asked();
  // f64 has none.
  (void)linear(on(cuda, randn({130, 8}), f64), on(cuda, randn({16, 8}), f64),
               on(cuda, randn({16}), f64));
  EXPECT_EQ(count(asked(), "epilogue 4"), 0);
}

TEST_F(CudaLibraries, AReluThatDropsNanIsNotUsed) {
  let("relu-drops-nan");
  const backend::LinearKernel rectified("linear_relu");
  const Tensor x = on(cuda, randn({131, 8})), w = on(cuda, randn({12, 8}));
  const Tensor nan = on(cuda, full({12}, std::numeric_limits<float>::quiet_NaN()));
  Tensor y = Tensor::empty({131, 12}, f32, cuda);
  for (int i = 0; i < 2; ++i) {
    rectified(cuda, f32, x, w, nan, y);
    EXPECT_TRUE(all_nan(y));
    EXPECT_NE(asked().back().find("epilogue 4"), std::string::npos);
  }
}

TEST_F(CudaLibraries, BatchesThatDoNotMergeAreStacksInTurn) {
  const Tensor a = on(cuda, randn({7, 2, 5, 4}).transpose(0, 1));  // (2, 7, 5, 4)
  const Tensor b = on(cuda, randn({2, 1, 4, 6})).expand({2, 7, 4, 6});
  const Tensor want = matmul(a.to(Device::cpu()), b.to(Device::cpu()));
  (void)asked();
  EXPECT_LT(distance(matmul(a, b), want), 1e-5);
  EXPECT_GE(count(asked(), "batches 7"), 2);
}

TEST_F(CudaLibraries, FailuresNameOpCallAndStatus) {
  const Tensor a = on(cuda, randn({6, 7})), b = on(cuda, randn({7, 6}));
  const Tensor x = on(cuda, randn({1, 2, 5, 5})), w = on(cuda, randn({2, 2, 2, 2}));
  (void)matmul(a, b);
  (void)conv2d(x, w);
  let("cublasLtMatmul cudnnConvolutionForward");
  EXPECT_EQ(message_of<DeviceError>([&] { (void)matmul(a, b); }),
            "[matmul] cuBLASLt: cublasLtMatmul failed: the fake was told to fail (status 13)");
  EXPECT_EQ(message_of<DeviceError>([&] { (void)conv2d(x, w); }),
            "[conv2d] cuDNN: cudnnConvolutionForward failed: CUDNN_STATUS_EXECUTION_FAILED: the "
            "fake says so");
}

TEST_F(CudaLibraries, ALostGpuIsToldWhicheverLibraryMeetsItFirst) {
  const Tensor a = on(cuda, randn({6, 7})), b = on(cuda, randn({7, 6}));
  const Tensor x = on(cuda, randn({1, 2, 5, 5})), w = on(cuda, randn({2, 2, 2, 2}));
  (void)matmul(a, b);
  (void)conv2d(x, w);
  let("cublasLtMatmul cudnnConvolutionForward");
  const tests::Environment lost("BRIM_EMULATED_LOST", "0");
  const std::string product = message_of<DeviceError>([&] { (void)matmul(a, b); });
  const std::string convolution = message_of<DeviceError>([&] { (void)conv2d(x, w); });
  EXPECT_TRUE(product.starts_with("[cuda] work queued on cuda:0 failed")) << product;
  EXPECT_TRUE(convolution.starts_with("[cuda] work queued on cuda:0 failed")) << convolution;
}

TEST_F(CudaLibraries, WithoutAnAlgorithmOwnKernelsComputeAndItIsSaid) {
  let("no-algorithm no-plans");
  const Tensor a = on(cuda, randn({8, 19})), x = on(cuda, randn({1, 3, 7, 7}));
  const Tensor w = on(cuda, randn({4, 3, 2, 2}));
  for (const bool again : {false, true}) {
    ::testing::internal::CaptureStderr();
    const Tensor y = matmul(a, a.t()), z = conv2d(x, w);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("[matmul] cuBLASLt has no algorithm") == std::string::npos, again) << said;
    EXPECT_EQ(said.find("[conv2d] cuDNN has no algorithm") == std::string::npos, again) << said;
    const Device cpu = Device::cpu();
    EXPECT_LT(distance(y, matmul(a.to(cpu), a.to(cpu).t())), 1e-4);
    EXPECT_LT(distance(z, conv2d(x.to(cpu), w.to(cpu))), 1e-4);
  }
}

}  // namespace
}  // namespace brim
