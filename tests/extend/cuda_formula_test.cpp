// Formulas that GPUs have no kernel of, compiled at run time from their text: over the emulation,
// by a fake of NVRTC that is the host's compiler (tests/fakes/nvrtc.cpp), or on a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include <brim/brim.h>

#include "core/cuda_libraries.h"
#include "core/runtime.h"
#include "environment.h"
#include "extend/formula_ops.h"
#include "extend/text_formulas.h"
#include "message_of.h"
#include "own_op/own_ops.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

double distance(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.shape(), want.shape());
  EXPECT_EQ(got.dtype(), want.dtype());
  if (got.numel() == 0) return 0;
  const Tensor wide = got.to(Device::cpu()).to(f64);
  return max(abs(wide - want.to(Device::cpu()).to(f64))).item();
}
double tolerance(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 2e-6 : dtype == f16 ? 4e-3 : 3e-2;
}

Tensor text_swish(const Tensor& x, double beta) {
  return extend::elementwise(TextSwish{.beta = beta}, x);
}
Tensor everything(const Tensor& x) { return extend::elementwise(TextEverything{}, x); }

using Op = std::function<Tensor(const std::vector<Tensor>&)>;

/// f, its gradients, and the gradient of those, of inputs copied to the device.
std::vector<Tensor> with_derivatives(const Op& f, const std::vector<Tensor>& inputs,
                                     Device device) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.to(device).clone().set_requires_grad());
  std::vector<Tensor> results{f(leaves)};
  Tensor y = sum(results[0] * results[0]);
  for (int order = 0; order < 2; ++order) {
    const std::vector<Tensor> dx =
        autograd::grad({&y, 1}, leaves, {}, {.create_graph = order == 0});
    y = sum(dx[0] * dx[0]);
    for (const Tensor& d : dx) results.push_back(d.detach());
    for (size_t i = 1; i < dx.size(); ++i) y = y + sum(dx[i]);
  }
  return results;
}

class CudaFormula : public testing::Test {
 protected:
  // What the fake made of another emulation would not run in this one: every run has its own cache.
  static void SetUpTestSuite() {
    if (!std::getenv("BRIM_BACKEND_PATH")) return;
    cache = new TemporaryFolder;
    place = new Environment("XDG_CACHE_HOME", cache->path());
  }
  static void TearDownTestSuite() {
    delete std::exchange(place, nullptr);
    delete std::exchange(cache, nullptr);
  }
  void SetUp() override {
    if (!device.available()) GTEST_SKIP() << "no CUDA device";
    if (!std::getenv("BRIM_BACKEND_PATH")) {  // a GPU
      const bool is_there =
          open_cuda_library("libnvrtc.so.13").handle || open_cuda_library("libnvrtc.so.12").handle;
      if (!is_there) GTEST_SKIP() << "no NVRTC";
      return;
    }
    const char* folder = std::getenv("BRIM_CUDA_LIBRARIES");
    void* const fake =
        folder ? dlopen((std::string(folder) + "/libnvrtc.so.13").c_str(), RTLD_LAZY) : nullptr;
    if (!fake) GTEST_SKIP() << "no fake of NVRTC";
    calls = reinterpret_cast<const char* (*)()>(dlsym(fake, "brim_fake_calls"));
    (void)compiled();
  }
  /// The programs compiled since the last call; none that one knows of on a GPU.
  std::string compiled() const { return calls ? calls() : ""; }

  void expect_like_cpu(const Op& f, const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> want = with_derivatives(f, inputs, Device::cpu());
    const std::vector<Tensor> got = with_derivatives(f, inputs, device);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(distance(got[i], want[i]), 1e-12 * (1 + max(abs(want[i])).item())) << i;
  }

  Device device = Device::cuda();
  const char* (*calls)() = nullptr;
  static inline TemporaryFolder* cache = nullptr;
  static inline Environment* place = nullptr;
};

TEST_F(CudaFormula, ComputesEveryDTypeAndLayout) {
  const Tensor x = randn({5, 3, 7});
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Tensor t = x.to(dtype), on = t.to(device);
    const auto same = [&](const Tensor& got, const Tensor& want) {
      EXPECT_LE(distance(got, want), tolerance(dtype)) << name(dtype) << want.shape().str();
    };
    const auto views = [](const Tensor& v) {
      return std::vector{v,
                         v.transpose(0, 2),
                         v.slice(1, 0, 3, 2),
                         v.select(2, 1).expand({2, 5, 3}),
                         v.slice(0, 0, 0),
                         v.select(0, 1).select(0, 1).select(0, 1)};
    };
    const std::vector<Tensor> here = views(t), there = views(on);
    for (size_t i = 0; i < here.size(); ++i) same(text_swish(there[i], 2), text_swish(here[i], 2));
  }
  const Tensor large = randn({300001});
  EXPECT_LE(distance(text_swish(large.to(device), 1), text_swish(large, 1)), 2e-6);
}

TEST_F(CudaFormula, BroadcastsTwoInputs) {
  const Tensor a = randn({4, 1, 6}), b = randn({5, 1});
  for (const DType dtype : {f32, f64, f16, bf16})
    EXPECT_LE(distance(logaddexp(a.to(dtype).to(device), b.to(dtype).to(device)),
                       logaddexp(a.to(dtype), b.to(dtype))),
              tolerance(dtype))
        << name(dtype);
}

TEST_F(CudaFormula, DerivativesAreTheCpus) {
  const Tensor x = randn({3, 4}, {.dtype = f64});
  expect_like_cpu([](const auto& in) { return text_swish(in[0], 1.5); }, {x});
  expect_like_cpu([](const auto& in) { return everything(in[0]); }, {x});
  expect_like_cpu([](const auto& in) { return logaddexp(in[0], in[1]); },
                  {x, randn({4}, {.dtype = f64})});
  const Tensor leaf = x.to(device).clone().set_requires_grad();
  autograd::gradcheck([](const auto& in) { return std::vector{everything(in[0])}; }, {leaf},
                      {.second_order = true});
}

TEST_F(CudaFormula, GradientsOf16BitsAreTheCpus) {
  for (const DType dtype : {f32, f16, bf16}) {
    const auto gradient = [&](const Tensor& x) {
      const Tensor leaf = x.clone().set_requires_grad();
      sum(text_swish(leaf, 2)).backward();
      return leaf.grad();
    };
    const Tensor x = randn({2, 9}).to(dtype);
    EXPECT_LE(distance(gradient(x.to(device)), gradient(x)), tolerance(dtype)) << name(dtype);
  }
}

TEST_F(CudaFormula, AGradientOfOnesOwnIsTaken) {
  for (const bool recorded : {false, true}) {
    const Tensor x = Tensor::from<float>({-1, 2}, {2}).to(device).set_requires_grad();
    const Tensor y[] = {sum(guided_relu(x))};
    const std::vector<Tensor> dx = autograd::grad(y, {&x, 1}, {}, {.create_graph = recorded});
    EXPECT_EQ(dx[0].to_vector<float>(), (std::vector<float>{0, 3})) << recorded;
  }
}

TEST_F(CudaFormula, CompiledStepsAreTheEagerOnes) {
  const auto body = [](const Tensor& x) {
    const Tensor y = text_swish(x * 2, 0.5);
    return logaddexp(y, x) * y;
  };
  auto step = compile(body);
  for (int i = 0; i < 5; ++i) {  // the third is captured as a graph
    const Tensor x = randn({33, 7});
    EXPECT_LE(distance(step(x.to(device)), body(x)), 4e-6) << step.explain();
  }
  EXPECT_GT(step.stats().graph_replays, 0);
}

BRIM_DEFINE_FORMULA(TextThreads, {
  static constexpr const char* kName = "text_threads";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x * x + T(1);
  }
});

TEST_F(CudaFormula, SeveralThreadsCompileItOnce) {
  const Tensor x = full({100}, 2, {.device = device});
  (void)compiled();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const Tensor y = extend::elementwise(TextThreads{}, x);
      EXPECT_EQ(y.to_vector<float>(), std::vector<float>(100, 5));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string once = compiled();
  EXPECT_EQ(std::count(once.begin(), once.end(), '\n'), calls ? 1 : 0) << once;
}

BRIM_DEFINE_FORMULA(TextCaptured, {
  static constexpr const char* kName = "text_captured";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x * T(3);
  }
});

TEST_F(CudaFormula, MayBeCompiledWhileAGraphIsCaptured) {
  const Tensor x = full({7}, 2, {.device = device});
  Tensor y = zeros({7}, {.device = device});
  int queued = 0;
  std::shared_ptr<void> kept;
  for (int i = 0; i < 4; ++i)
    runtime(DeviceKind::cuda)
        .launch_as_one(Stream::current(device),
                       {.queue =
                            [&](int) {  // new where the graph is captured
                              y.copy_(++queued < 3 ? x : extend::elementwise(TextCaptured{}, x));
                              return true;
                            }},
                       kept);
  EXPECT_EQ(queued, 3);
  const RepeatedStats stats = runtime(DeviceKind::cuda).repeated(kept);
  EXPECT_EQ(stats.graphs, 1) << stats.why_not;
  EXPECT_EQ(stats.replayed, 2);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(7, 6));
}

BRIM_DEFINE_FORMULA(TextRefused, {
  static constexpr const char* kName = "text_refused";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x - T(1);
  }
});

TEST_F(CudaFormula, CodeThatCudaRefusesIsMadeAnew) {
  if (!calls) GTEST_SKIP() << "no fake of NVRTC";
  const Tensor x = ones({3}, {.device = device});
  const auto compute = [&] { return extend::elementwise(TextRefused{}, x); };
  {
    const Environment fake("BRIM_FAKE", "instant-nvrtc");  // whose code is none
    const std::string message = message_of<DeviceError>([&] { (void)compute(); });
    EXPECT_NE(message.find("[text_refused] cuda:0 refuses the code that NVRTC 13.99 compiled from "
                           "the formula: device kernel image is invalid"),
              std::string::npos)
        << message;
  }
  (void)compiled();
  EXPECT_EQ(compute().to_vector<float>(), std::vector<float>(3, 0));  // what was kept is no code
  EXPECT_NE(compiled(), "");
}

constexpr int kOutside = 3;
BRIM_DEFINE_FORMULA(TextOutside, {
  static constexpr const char* kName = "text_outside";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const char quoted = ';';
    return x * T(kOutside) + T(quoted);
  }
});

TEST_F(CudaFormula, OneThatDoesNotCompileSaysWhy) {
  EXPECT_EQ(extend::elementwise(TextOutside{}, ones({1})).item(), 3 + ';');
  const std::string message = message_of<NotImplemented>(
      [&] { (void)extend::elementwise(TextOutside{}, ones({1}, {.device = device})); });
  for (const char* part : {"[text_outside] its formula does not compile for GPUs (NVRTC 1",
                           "kOutside", "brim/extend/formula.h"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  // Nothing else is worse for it.
  EXPECT_LE(distance(text_swish(ones({2}, {.device = device}), 1), text_swish(ones({2}), 1)), 1e-6);
}

TEST_F(CudaFormula, OneWithoutATextNamesTheCure) {
  const std::string message =
      message_of<NotImplemented>([&] { (void)swish(ones({1}, {.device = device}), 1); });
  EXPECT_NE(message.find("[test_swish] is not implemented on cuda for f32: its formula carries no "
                         "text to compile; define it with BRIM_DEFINE_FORMULA"),
            std::string::npos)
      << message;
}

TEST_F(CudaFormula, IntegersAreRefusedAsOnTheCpu) {
  EXPECT_THROW((void)text_swish(ones({2}, {.dtype = i32, .device = device}), 1), DTypeError);
}

TEST_F(CudaFormula, ARegisteredKernelWins) {
  if (!calls) GTEST_SKIP() << "who compiles is not seen on a GPU";
  const Tensor x = randn({50});
  const Tensor first = own::softsign(x.to(device));  // by its text, unless the plugin is there
  EXPECT_LE(distance(first, own::softsign(x)), 1e-6);
  const char* const build = std::getenv("BRIM_BUILD_DIR");
  if (!build) GTEST_SKIP() << "no BRIM_BUILD_DIR";
  load_plugin(std::string(build) + "/plugins/libown_op_emulated.so");
  (void)compiled();
  for (const DType dtype : {f32, f64, f16, bf16})
    EXPECT_LE(distance(own::softsign(x.to(dtype).to(device)), own::softsign(x.to(dtype))),
              tolerance(dtype));
  EXPECT_EQ(compiled(), "");
}

TEST(CudaFormulaWithoutNvrtc, SaysWhatToInstall) {
  if (!std::getenv("BRIM_BACKEND_PATH") || std::getenv("BRIM_CUDA_LIBRARIES"))
    GTEST_SKIP() << "NVRTC, or a fake of it, may be there";
  const std::string message = message_of<NotImplemented>(
      [] { (void)text_swish(ones({1}, {.device = Device::cuda()}), 1); });
  for (const char* part :
       {"[text_swish] ", "NVRTC (libnvrtc.so.13) is not there", "install", "plugin"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace brim::tests
