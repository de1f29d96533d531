// Plugins: what opens, what is refused, and CUDA kernels in one (over the emulation).
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <brim/brim.h>
#include <brim/extend.h>

#include "backend/elf_symbols.h"
#include "extend/formula_ops.h"
#include "message_of.h"
#include "own_op/own_ops.h"

namespace brim::tests {
namespace {

std::string plugin_path(const std::string& name) {
  const char* const build = std::getenv("BRIM_BUILD_DIR");
  return std::string(build ? build : "build") + "/plugins/lib" + name + ".so";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LoadPlugin, RegistersItsKernels) {
  const extend::Kernel<void(const Context&, Tensor& y)> kernel("test_plugin_seven");
  Tensor y = zeros({3});
  EXPECT_THROW(kernel(Device::cpu(), f32, y), NotImplemented);
  EXPECT_EQ(load_plugin(plugin_path("plugin_seven")), "plugin_seven");
  EXPECT_EQ(load_plugin(plugin_path("plugin_seven")), "plugin_seven");
  kernel(Device::cpu(), f32, y);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(3, 7));
}

TEST(LoadPlugin, IsNotThere) {
  EXPECT_TRUE(contains(message_of<FileError>([] { load_plugin("/nowhere/lib.so"); }),
                       "[plugin] /nowhere/lib.so is not there"));
}

TEST(LoadPlugin, OfAnotherInterfaceIsRefusedBeforeItRuns) {
  for (const char* const name : {"plugin_stale", "plugin_stale_linked"}) {
    const std::string message = message_of([&] { load_plugin(plugin_path(name)); });
    EXPECT_TRUE(contains(message, "was built for brim 0.0.9 (interface 00000000deadbeef)"))
        << message;
    EXPECT_TRUE(contains(message, std::string("but this is brim ") + BRIM_VERSION)) << message;
    EXPECT_EQ(std::getenv("BRIM_TEST_STALE_PLUGIN_RAN"), nullptr);
  }
}

TEST(LoadPlugin, OtherLibrariesAreNotOpened) {
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(contains(message_of([] { load_plugin(plugin_path("plugin_stranger")); }),
                         "is no plugin of brim"));
  const extend::Kernel<void(const Context&, Tensor& y)> kernel("test_stranger");
  Tensor y = zeros({1});
  EXPECT_THROW(kernel(Device::cpu(), f32, y), NotImplemented);
}

TEST(LoadPlugin, TheInterfaceIsTheOneOfThisLibrary) {
  EXPECT_TRUE(contains(message_of([] { load_plugin(plugin_path("plugin_forged")); }),
                       "is no plugin of brim"));
}

TEST(LoadPlugin, BrokenFilesAreRefused) {
  std::ifstream in(plugin_path("plugin_seven"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(whole.size(), 4096u);
  const std::string path = testing::TempDir() + "brim_broken_plugin_" + std::to_string(getpid());
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_NE(message_of([&] { load_plugin(path); }), "no error");
  };
  refused("");
  refused("no library at all");
  for (size_t size = 16; size < whole.size(); size += whole.size() / 40)
    refused(whole.substr(0, size));
  // Offsets, counts and links that point anywhere: nothing is read beyond the file.
  uint64_t at = 0;
  std::memcpy(&at, &whole[offsetof(ElfW(Ehdr), e_shoff)], sizeof(at));
  for (size_t i = at; i < whole.size(); i += 4) {
    std::string bent = whole;
    bent.replace(i, 4, "\xff\xff\xff\x7f");
    std::ofstream(path, std::ios::binary) << bent;
    (void)backend::elf_symbols(path, "brim_");
  }
  std::filesystem::remove(path);
}

TEST(LoadPlugin, SymbolsThatAreMissingAreNamed) {
  EXPECT_TRUE(contains(message_of<FileError>([] { load_plugin(plugin_path("plugin_unlinked")); }),
                       "brim_test_nobody_has_this"));
}

TEST(LoadPlugin, AKernelThatIsTakenIsRefused) {
  const std::string message = message_of([] { load_plugin(plugin_path("plugin_taken")); });
  EXPECT_TRUE(contains(message, "'relu' has a kernel for cpu and f32 already")) << message;
  EXPECT_EQ(message_of([] { load_plugin(plugin_path("plugin_taken")); }), message);
  EXPECT_EQ(relu(full({1}, -1)).item(), 0);
}

TEST(LoadPlugin, AKernelWithTraitsThatDoNotFitIsRefused) {
  for (int i = 0; i < 2; ++i) {
    const std::string message = message_of([] { load_plugin(plugin_path("plugin_bad_kernel")); });
    EXPECT_TRUE(contains(message, "'test_bad_kernel' has more tensors than the names 'x'"))
        << message;
  }
}

TEST(LoadPlugin, MayHaveAFormulaThatTheProgramHas) {
  const Tensor x = randn({5}, {.requires_grad = true});
  const auto slope = [&] {
    sum(swish(x, 2)).backward();
    return x.grad().to_vector<float>();
  };
  (void)slope();
  EXPECT_EQ(load_plugin(plugin_path("plugin_swish")), "plugin_swish");
  EXPECT_EQ(slope().size(), 5u);
}

// Over the emulation, or on a GPU.
class OwnOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!device.available()) GTEST_SKIP() << "no CUDA device";
    // Over the emulation, whose backend is open by now: the plugin's launches are functions of it.
    const std::string name = std::getenv("BRIM_BACKEND_PATH") ? "own_op_emulated" : "own_op_cuda";
    EXPECT_EQ(load_plugin(plugin_path(name)), name);
  }
  static double error_of_cuda(const Tensor& got, const Tensor& want) {
    if (got.numel() == 0) return 0;
    return max(abs(got.to(Device::cpu()).to(f64) - want.to(f64))).item();
  }
  Device device = Device::cuda();
};

TEST_F(OwnOnCuda, FormulasCompute) {
  const Tensor x = randn({5, 3, 7});
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Tensor t = x.to(dtype), on = t.to(device);
    const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : 2e-2;
    EXPECT_LE(error_of_cuda(own::softsign(on), own::softsign(t)), tolerance);
    EXPECT_LE(error_of_cuda(own::softsign(on.transpose(0, 2)), own::softsign(t.transpose(0, 2))),
              tolerance);
    EXPECT_LE(
        error_of_cuda(own::softsign(on.slice(1, 0, 3, 2)), own::softsign(t.slice(1, 0, 3, 2))),
        tolerance);
  }
  EXPECT_EQ(own::softsign(zeros({0, 3}, {.device = device})).numel(), 0);
}

TEST_F(OwnOnCuda, HaveGradients) {
  const TensorOptions leaf{.dtype = f64, .device = device, .requires_grad = true};
  const Tensor x = randn({3, 4}, leaf);
  autograd::gradcheck([](const auto& in) { return std::vector{own::softsign(in[0])}; }, {x},
                      {.second_order = true});
  autograd::gradcheck([](const auto& in) { return std::vector{own::l1_distances(in[0], in[1])}; },
                      {x, randn({2, 4}, leaf)});
}

TEST_F(OwnOnCuda, CompiledStepsAreTheEagerOnes) {
  const Tensor w = randn({4, 8}, {.device = device});
  const auto body = [&](const Tensor& x) {
    return own::softsign(relu(own::l1_distances(x, w)) - 2) * 3;
  };
  auto step = compile(body);
  for (int i = 0; i < 5; ++i) {  // the third is captured as a graph
    const Tensor x = randn({16, 8}, {.device = device});
    EXPECT_LE(error_of_cuda(step(x), body(x).to(Device::cpu())), 1e-6) << step.explain();
  }
  EXPECT_GT(step.stats().graph_replays, 0);
}

TEST_F(OwnOnCuda, WhatHasNoKernelThereSaysSo) {
  const Tensor x = zeros({2, 3}, {.device = device});
  EXPECT_TRUE(contains(message_of<NotImplemented>([&] { (void)own::log_mean_exp(x); }),
                       "[log_mean_exp] is not implemented on cuda for f32, nor for another dtype"));
  EXPECT_TRUE(contains(message_of<NotImplemented>([&] { (void)swish(x, 1); }),
                       "[test_swish] is not implemented on cuda for f32"));
}

int native_calls = 0;
int out_of_memory() {
  ++native_calls;
  return 2;  // cudaErrorMemoryAllocation
}
void call_native(const Context& context, Tensor&) { extend::queue_native(context, out_of_memory); }
void call_repeatable(const Context& context, Tensor&) {
  extend::queue_repeatable(context, out_of_memory);
}

TEST_F(OwnOnCuda, NativeCallsAreMadeOnce) {
  extend::register_kernel("test_native", DeviceKind::cuda, f32, &call_native);
  extend::register_kernel("test_repeatable", DeviceKind::cuda, f32, &call_repeatable);
  const auto calls_of = [&](const char* name) {
    const extend::Kernel<void(const Context&, Tensor&)> kernel(name);
    Tensor y = zeros({1}, {.device = device});
    (void)zeros({1 << 24}, {.device = device});  // the cache can give that back
    native_calls = 0;
    EXPECT_THROW(kernel(device, f32, y), OutOfMemory);
    return native_calls;
  };
  EXPECT_EQ(calls_of("test_native"), 1);
  EXPECT_GT(calls_of("test_repeatable"), 1);
}

void not_relu(const Context&, const Tensor&, Tensor&, const extend::Params&) {}

TEST(OwnOnCudaDeathTest, ATakenNameLeavesNoException) {
  if (!std::getenv("BRIM_BACKEND_PATH")) GTEST_SKIP() << "not over the emulation";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not opened the backend
  EXPECT_EXIT(
      {
        extend::register_kernel("relu", DeviceKind::cuda, f32, &not_relu);
        const std::string why =
            message_of<DeviceError>([] { (void)zeros({1}, {.device = Device::cuda()}); });
        std::fputs(why.c_str(), stderr);
        std::_Exit(Device::cuda().available() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "'relu' has a kernel for cuda and f32 already");
}

}  // namespace
}  // namespace brim::tests
