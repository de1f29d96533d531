// Memory formats that the layout pass chooses for CUDA: the same training in each of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <brim/brim.h>

#include "plan/layout.h"
#include "plan/pass.h"
#include "plan/recorder.h"
#include "temporary_folder.h"

namespace brim {
namespace {

class CudaLayout : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }
  void TearDown() override { plan::forced_layout.reset(); }

  /// Losses of some steps of a residual block with pooling, compiled in `format`. The user has the
  /// input and the weights in the format `own`.
  static std::vector<double> losses(Device device, std::optional<MemoryFormat> format,
                                    DType precision, std::string* explained = nullptr,
                                    MemoryFormat own = MemoryFormat::nchw) {
    manual_seed(5);
    nn::Sequential net;
    net.push<nn::Conv2d>({.in = 3, .out = 8, .kernel = 3, .padding = 1});
    net.push<nn::BatchNorm2d>({.features = 8});
    net.push<nn::ReLU>();
    net.push<nn::MaxPool2d>({.kernel = 2});
    net.push<nn::BasicBlock>({.in = 8, .channels = 16, .stride = 2});
    net.push<nn::AdaptiveAvgPool2d>({.output = 1});
    net.push<nn::Flatten>();
    net.push<nn::Linear>({.in = 16, .out = 5});
    const Tensor x = randn({2, 3, 8, 8}).to(device).to(own), y = randint(0, 5, {2}).to(device);
    net.to(device).to(own);
    optim::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
    auto step = compile([&](const Tensor& image, const Tensor& label) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast scope(precision);
        loss = cross_entropy(net(image), label);
      }
      loss.backward();
      optimizer.step();
      return loss;
    });
    plan::forced_layout = format;
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) all.push_back(step(x, y).to(Device::cpu()).item());
    plan::forced_layout.reset();
    if (explained) *explained = step.explain();
    return all;
  }

  /// Whether a step that was compiled in `format` has tensors in it, and in no other.
  static bool all_are(MemoryFormat format, const std::string& explained) {
    const size_t end = explained.find(std::string(" ") + plan::name(format) + " tensors with");
    if (end == std::string::npos) return false;
    const size_t line = explained.rfind('\n', end) + 1;
    return explained.substr(line, end - line).find(',') == std::string::npos;
  }
};

TEST_F(CudaLayout, TrainsAsTheCpuInEachFormat) {
  const std::vector<double> expected = losses(Device::cpu(), std::nullopt, f32);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    std::string explained;
    const std::vector<double> actual = losses(Device::cuda(), format, f32, &explained);
    EXPECT_TRUE(all_are(format, explained)) << explained;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-4) << plan::name(format) << ", step " << i;
  }
}

TEST_F(CudaLayout, SixteenBitsToo) {
  const std::vector<double> expected = losses(Device::cpu(), std::nullopt, bf16);
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    std::string explained;
    const std::vector<double> actual = losses(Device::cuda(), format, bf16, &explained);
    EXPECT_TRUE(all_are(format, explained)) << explained;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 0.05) << plan::name(format) << ", step " << i;
  }
}

TEST_F(CudaLayout, WeightsAndInputsOfTheUsersFormat) {
  for (const DType precision : {f32, bf16}) {
    const std::vector<double> expected = losses(Device::cpu(), std::nullopt, precision);
    for (const Device device : {Device::cpu(), Device::cuda()}) {
      const std::vector<double> actual =
          losses(device, std::nullopt, precision, nullptr, MemoryFormat::nhwc);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], precision == f32 ? 1e-4 : 0.05)
            << device.str() << " " << name(precision) << ", step " << i;
    }
  }
}

// The cast of a weight, which runs anyway, turns it, and that of its gradient turns it back: no
// convolution does. Nor does any where the layouts it is given cannot be had.
TEST_F(CudaLayout, WeightsAreTurnedByTheirCasts) {
  manual_seed(7);
  nn::Sequential net;
  net.push<nn::Conv2d>({.in = 8, .out = 16, .kernel = 3, .bias = false});
  net.push<nn::Conv2d>({.in = 16, .out = 8, .kernel = 3, .groups = 2, .bias = false});
  net.push<nn::AdaptiveAvgPool2d>({.output = 1});
  net.to(Device::cuda());
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.05});
  const Tensor x = randn({2, 8, 8, 8}).to(Device::cuda());
  const plan::Step step = [&](std::span<const Tensor> in) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast scope(bf16);
      loss = mean(net(in[0]));
    }
    loss.backward();
    optimizer.step();
    return std::vector<Tensor>{loss.detach()};
  };
  for (const MemoryFormat format : plan::kFormats) {
    plan::Program program = plan::record(step, {&x, 1}, false).program;
    plan::forced_layout = format;
    const std::string text = plan::layout(program);
    int weights = 0;
    for (const auto& launch : program.launches) {
      const std::string_view name = launch->name();
      if (!name.starts_with("conv2d")) continue;
      const Tensor& weight = launch->operand(name == "conv2d_grad_weight" ? 2 : 1);
      EXPECT_TRUE(weight.is_contiguous(format == MemoryFormat::nhwc ? format : MemoryFormat::nchw))
          << name << "\n"
          << text;
      ++weights;
    }
    EXPECT_EQ(weights, 5);
  }
}

// Times are kept by what they depend on beside the device: NVIDIA's libraries, and TF32.
TEST_F(CudaLayout, TimesAreKeptByLibrariesAndPrecision) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "layout.json";
  const auto measured = [&] {
    plan::LayoutCosts costs(path, Device::cuda());
    (void)costs.of_conversion({1, 2, 3, 4}, Device::cuda(), {f32, MemoryFormat::nchw},
                              {f32, MemoryFormat::nhwc});
    costs.save();
    return costs.measured();
  };
  EXPECT_EQ(measured(), 1);
  EXPECT_EQ(measured(), 0);
  {
    const Tf32 scope;
    EXPECT_EQ(measured(), 1);
  }
  EXPECT_EQ(measured(), 0);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("cuBLASLt"), std::string::npos) << text;
  EXPECT_NE(text.find("cuDNN"), std::string::npos) << text;
  EXPECT_NE(text.find("; tf32\""), std::string::npos) << text;
}

}  // namespace
}  // namespace brim
