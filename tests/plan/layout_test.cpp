// The layout pass: compiled steps in any memory format equal the eager one, copies stand where
// formats meet, and a file of measured times that cannot be trusted is not.
#include "plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <brim/brim.h>

#include "backend/options/geometry.h"
#include "compress/pruned_weight.h"
#include "environment.h"
#include "plan/pass.h"
#include "plan/recorder.h"
#include "temporary_folder.h"

namespace brim::plan {
namespace {

namespace fs = std::filesystem;

class LayoutTest : public ::testing::Test {
 protected:
  ~LayoutTest() override { forced_layout.reset(); }
  fs::path file() const { return folder_ / "brim/layout.json"; }

  tests::TemporaryFolder folder_;
  const tests::Environment cache_{"XDG_CACHE_HOME", folder_.path()};
};

/// Convolutions, pooling, normalisation, a residual, and a view that needs row-major elements.
struct ConvNormNet {
  ConvNormNet() {
    manual_seed(4);
    const auto leaf = [](const Shape& shape) { return (randn(shape) * 0.1).set_requires_grad(); };
    w1 = leaf({32, 3, 3, 3});
    w2 = leaf({32, 32, 3, 3});
    w3 = leaf({16, 32, 1, 1});
    scale = leaf({32});
    shift = leaf({32});
  }
  Tensor forward(const Tensor& x) {
    Tensor y = conv2d(x, w1, {}, {.padding = 1});
    y = relu(batch_norm(y, scale, shift, {}, {}, {.training = true}));
    y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
    y = relu(conv2d(y, w2, {}, {.padding = 1}) + y);
    y = conv2d(y, w3, {}, {.stride = 2});
    return y.reshape({x.size(0), -1}) * 2;
  }
  std::vector<Tensor> results(bool compiled, std::string* explain = nullptr) {
    const Tensor x = randn({8, 3, 40, 40});
    const std::function<Tensor(const Tensor&)> body = [&](const Tensor& input) {
      for (Tensor* t : {&w1, &w2, &w3, &scale, &shift}) t->zero_grad();
      const Tensor y = forward(input);
      mean(square(y)).backward();
      return y.detach();
    };
    auto step = compile(body, {.keep_gradients = true});
    std::vector<Tensor> all{(compiled ? step(x) : body(x)).clone()};
    if (explain) *explain = step.explain();
    for (Tensor* t : {&w1, &w2, &w3, &scale, &shift}) all.push_back(t->grad().clone());
    return all;
  }
  Tensor w1, w2, w3, scale, shift;
};

void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                  const std::string& why, double tolerance = 1e-4) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_LT(max(abs(a[i] - b[i])).item(), tolerance * max(abs(b[i])).item() + 1e-7)
        << "result " << i << "\n"
        << why;
}

/// The operands of a convolution or of one of its gradients that are activations.
std::vector<size_t> activations_of_conv(const Launch& launch) {
  if (is(launch, "conv2d")) return {0, 3};
  return is(launch, "conv2d_grad_x") ? std::vector<size_t>{0, 2} : std::vector<size_t>{0, 1};
}

TEST_F(LayoutTest, EveryFormatEqualsEager) {
  const auto eager = ConvNormNet().results(false);
  for (const std::optional<MemoryFormat> format :
       {std::optional<MemoryFormat>(), std::optional(MemoryFormat::nchw),
        std::optional(MemoryFormat::nhwc), std::optional(MemoryFormat::chwn)}) {
    forced_layout = format;
    std::string explain;
    const auto compiled = ConvNormNet().results(true, &explain);
    expect_close(compiled, eager, explain);
    if (format == MemoryFormat::nhwc) {
      EXPECT_NE(explain.find(" copy "), std::string::npos) << explain;
    }
  }
}

// Which columns a weight has is no number like others: kernels check it wherever they are measured.
TEST_F(LayoutTest, MeasuresSparseConvolutions) {
  manual_seed(5);
  const Tensor dense = randn({32, 3, 3, 3}), pruned = tests::pruned_weight({32, 32, 3, 3}, 8, 0.75);
  const SparseWeight sparse = SparseWeight::encode(pruned, 8);
  const std::function<Tensor(const Tensor&)> body = [&](const Tensor& x) {
    const NoGrad no_grad;
    const Tensor y = relu(conv2d(x, dense, {}, {.padding = 1}));
    return relu(sparse_conv2d(y, sparse, {}, {.padding = 1}));
  };
  const Tensor x = randn({16, 3, 32, 32});
  auto step = compile(body);
  expect_close({step(x)}, {body(x)}, step.explain());
  EXPECT_TRUE(fs::exists(file()));  // times were measured
}

// Under Autocast casts stand around convolutions. They read any format, so nothing stays row-major
// for their sake, and no launch does nothing but convert.
TEST_F(LayoutTest, CastsConvertWhileTheyCast) {
  ConvNormNet net;
  const Tensor x = randn({2, 3, 10, 10});
  const Step step = [&](std::span<const Tensor> in) {
    for (Tensor* t : {&net.w1, &net.w2, &net.scale, &net.shift}) t->zero_grad();
    Tensor loss;
    {
      const Autocast scope(bf16);
      Tensor y = conv2d(in[0], net.w1, {}, {.padding = 1});
      y = relu(batch_norm(y, net.scale, net.shift, {}, {}, {.training = true}));
      loss = mean(adaptive_avg_pool2d(conv2d(y, net.w2, {}, {.padding = 1}), 1));
    }
    loss.backward();
    return std::vector<Tensor>{loss.detach()};
  };
  Program program = record(step, {&x, 1}, true).program;
  const auto count = [&](std::string_view name) {
    return std::count_if(program.launches.begin(), program.launches.end(),
                         [&](const auto& l) { return is(*l, name); });
  };
  ASSERT_EQ(count("conv2d") + count("conv2d_grad_x") + count("conv2d_grad_weight"), 5);
  const auto copies = count("copy");
  EXPECT_GT(copies, 0);
  forced_layout = MemoryFormat::nhwc;
  const std::string text = layout(program);
  EXPECT_EQ(count("copy"), copies) << text;
  for (const auto& launch : program.launches) {
    const bool is_conv = std::string_view(launch->name()).starts_with("conv2d");
    for (const size_t i : is_conv ? activations_of_conv(*launch) : std::vector<size_t>{}) {
      const Tensor& t = launch->operand(i);
      EXPECT_TRUE(t.is_contiguous(MemoryFormat::nhwc) && !t.is_contiguous())
          << launch->name() << ", operand " << i << "\n"
          << text;
    }
  }
}

TEST_F(LayoutTest, EveryFormatEqualsEagerUnderAutocast) {
  const Autocast scope(bf16);
  const auto eager = ConvNormNet().results(false);
  for (const MemoryFormat format : kFormats) {
    forced_layout = format;
    std::string explain;
    const auto compiled = ConvNormNet().results(true, &explain);
    expect_close(compiled, eager, explain, 0.03);
  }
}

TEST_F(LayoutTest, MeasuresOnce) {
  std::string first, second;
  (void)ConvNormNet().results(true, &first);
  ASSERT_TRUE(fs::exists(file()));
  (void)ConvNormNet().results(true, &second);
  EXPECT_EQ(first.find("; 0 measured now"), std::string::npos) << first;
  EXPECT_NE(second.find("; 0 measured now"), std::string::npos) << second;
}

TEST_F(LayoutTest, DistrustsDamagedFiles) {
  (void)ConvNormNet().results(true);
  std::ifstream in(file());
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> bad{"",
                               "{",
                               "[]",
                               "{\"version\": 1}",
                               good.substr(0, good.size() / 2),
                               "{\"version\": 99, \"machines\": {}}",
                               "{\"version\": 1, \"machines\": {\"a\": 3}}",
                               "{\"version\": 1, \"machines\": {\"a\": {\"k\": \"fast\"}}}",
                               "{\"version\": 1, \"machines\": {\"a\": {\"k\": -1}}}",
                               "{\"version\": 1, \"machines\": {\"a\": {\"k\": 1e300}}}"};
  for (const std::string& text : bad) {
    std::ofstream(file()) << text;
    ::testing::internal::CaptureStderr();
    const LayoutCosts costs;
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("measuring again"), std::string::npos)
        << text;
  }
  std::string explain;
  (void)ConvNormNet().results(true, &explain);  // the last of the bad ones lies there
  EXPECT_EQ(explain.find("; 0 measured now"), std::string::npos);
  ::testing::internal::CaptureStderr();
  const LayoutCosts costs;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LayoutTest, TimesOfOtherMachinesAreNotUsed) {
  fs::create_directories(file().parent_path());
  std::ofstream(file()) << R"({"version": 1, "machines": {"elsewhere": {"conv2d f32": 0.5}}})";
  std::string explain;
  (void)ConvNormNet().results(true, &explain);
  EXPECT_EQ(explain.find("; 0 measured now"), std::string::npos);
  std::ifstream in(file());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("elsewhere"), std::string::npos);
}

TEST_F(LayoutTest, WorksWithoutACache) {
  std::ofstream(folder_ / "brim") << "a file where the folder should be";
  std::string explain;
  ::testing::internal::CaptureStderr();
  const auto compiled = ConvNormNet().results(true, &explain);
  (void)::testing::internal::GetCapturedStderr();
  expect_close(compiled, ConvNormNet().results(false), explain);
}

double copy_time(LayoutCosts& costs, int64_t channels) {
  return costs.of_conversion({1, channels, 2, 2}, Device::cpu(), {f32, MemoryFormat::nchw},
                             {f32, MemoryFormat::nhwc});
}

TEST_F(LayoutTest, RunsAtOnceKeepEachOthersTimes) {
  LayoutCosts first, second;
  const double a = copy_time(first, 2), b = copy_time(second, 3);
  first.save();
  second.save();
  LayoutCosts third;
  EXPECT_EQ(copy_time(third, 2), a);
  EXPECT_EQ(copy_time(third, 3), b);
  EXPECT_EQ(third.measured(), 0);
}

TEST_F(LayoutTest, DamageMeanwhileIsNotTakenOver) {
  LayoutCosts costs;
  const double a = copy_time(costs, 2);
  fs::create_directories(file().parent_path());
  std::ofstream(file()) << R"({"version": 1, "machines": {"m": {"good": 1, "k": -1}}})";
  costs.save();
  std::ifstream in(file());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text.find("good"), std::string::npos) << text;
  LayoutCosts after;
  EXPECT_EQ(copy_time(after, 2), a);
  EXPECT_EQ(after.measured(), 0);
}

TEST_F(LayoutTest, ThreadsWriteTheFileAtOnce) {
  constexpr int kThreads = 8;
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      for (int round = 0; round < 5; ++round) {
        LayoutCosts costs;
        (void)copy_time(costs, 1 + kThreads * round + i);
        costs.save();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  LayoutCosts costs;
  for (int64_t c = 1; c <= kThreads * 5; ++c) (void)copy_time(costs, c);
  EXPECT_EQ(costs.measured(), 0);
  for (const auto& entry : fs::directory_iterator(file().parent_path()))
    EXPECT_TRUE(entry.path() == file() || entry.path() == file().string() + ".lock") << entry;
}

}  // namespace
}  // namespace brim::plan
