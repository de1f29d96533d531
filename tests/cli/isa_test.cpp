// BRIM_CPU_ISA: what it may name, that kernels and oneDNN keep to it, and what is said where it
// names anything else.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include <brim/core/random.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include "backend/cpu/runtime/isa.h"
#include "cli/run_brim.h"
#include "core/check.h"

namespace brim::command {
namespace {

using namespace brim::tests;

/// Runs a disabled test in a process of its own, as `environment` says in shell; its exit code.
int run_child(const std::string& environment, const std::string& test) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  // A child in the shards of its parent would leave out its one test.
  const std::string line = "unset GTEST_TOTAL_SHARDS GTEST_SHARD_INDEX; " + environment + " " +
                           in_quotes(self) +
                           " --gtest_also_run_disabled_tests --gtest_brief=1 "
                           "--gtest_filter=CpuIsaChild.DISABLED_" +
                           test;
  return std::system(line.c_str());
}

TEST(CpuIsa, EachThatIsListedIsTaken) {
  for (const std::string& isa : cpu::available_isas()) {
    const Ran ran = run_brim({"env", "--json"}, "export BRIM_CPU_ISA=" + isa + ";");
    ASSERT_EQ(ran.code, 0) << ran.err;
    const auto cpu = nlohmann::json::parse(ran.out)["cpu"];
    EXPECT_EQ(cpu["isa"], isa);
    EXPECT_EQ(cpu["isas"], cpu::available_isas());
    EXPECT_EQ(cpu["isa_error"], "");
  }
}

TEST(CpuIsa, AnotherIsOneLineThatNamesThem) {
  for (const char* wrong : {"AVX2", "avx10", "neon-of-another-cpu", " ", "avx2,scalar"}) {
    const std::string set = "export BRIM_CPU_ISA='" + std::string(wrong) + "';";
    const Ran ran = run_brim({"bench", "relu-16"}, set);
    EXPECT_EQ(ran.code, 1) << wrong;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find("BRIM_CPU_ISA is '" + std::string(wrong) + "'"), std::string::npos)
        << ran.err;
    for (const std::string& isa : cpu::available_isas())
      EXPECT_NE(ran.err.find(isa), std::string::npos) << ran.err;

    // `brim env` helps to mend it.
    const Ran env = run_brim({"env"}, set);
    EXPECT_EQ(env.code, 0);
    EXPECT_NE(env.out.find("BRIM_CPU_ISA is '" + std::string(wrong) + "'"), std::string::npos)
        << env.out;
  }
}

TEST(CpuIsa, EmptyIsAsUnset) {
  EXPECT_EQ(run_brim({"bench", "relu-16", "--steps", "1"}, "export BRIM_CPU_ISA=;").code, 0);
}

TEST(CpuIsa, AnotherOneAtResumeIsTold) {
  const std::vector<std::string>& isas = cpu::available_isas();
  if (isas.size() < 2) GTEST_SKIP() << "this CPU has one instruction set only";
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  const auto set = [](const std::string& isa) { return "export BRIM_CPU_ISA=" + isa + ";"; };
  ASSERT_EQ(run_brim({"train", "tutorial-cnn", "--data", "shapes10", "--steps", "1", "--out", run},
                     set(isas.back()))
                .code,
            0);
  const auto go_on = [&](const std::string& isa) {
    const Ran ran = run_brim({"train", "--resume", run, "--steps", "1"}, set(isa));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.err.find("the instruction set " + isas.back() + " and goes on with " + isas[0]) !=
           std::string::npos;
  };
  EXPECT_FALSE(go_on(isas.back()));
  EXPECT_TRUE(go_on(isas[0]));
}

/// Run by the next test in a process of its own.
TEST(CpuIsaChild, DISABLED_Allocates) {
  for (const char* device : {"cpu", "sim:0"}) {
    try {
      (void)zeros({2}, {.device = Device(device)});
      ADD_FAILURE() << "nothing was thrown on " << device;
    } catch (const ValueError& e) {
      EXPECT_EQ(std::string(e.what()), cpu::isa_error());
    }
  }
}

// A program of one's own hears of it at its first tensor; before that nothing could be thrown.
TEST(CpuIsa, AWrongOneIsAnErrorAtTheFirstTensor) {
  EXPECT_EQ(run_child("BRIM_CPU_ISA=none", "Allocates"), 0);
}

/// Run by the next test: writes what depends on the instruction set into the file that
/// BRIM_TEST_OUT names.
TEST(CpuIsaChild, DISABLED_Computes) {
  nlohmann::json made;
  Generator generator(1);
  const Tensor sums = sum(randn({64, 1000}, {}, &generator), {1});
  for (const float each : sums.to_vector<float>())
    made["sums"].push_back(std::bit_cast<uint32_t>(each));
  // Only a shared Highway knows here what the library chose.
  if (dlopen("libhwy.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    const int64_t targets = HWY_TARGETS & (hwy::SupportedTargets() | HWY_STATIC_TARGET);
    made["target"] = targets & -targets;
  }
#if BRIM_HAVE_DNNL
  made["dnnl"] = static_cast<int>(dnnl::get_effective_cpu_isa());
#endif
  const char* out = std::getenv("BRIM_TEST_OUT");
  ASSERT_NE(out, nullptr);
  std::ofstream(out) << made;
}

nlohmann::json computed(const std::string& isa) {
  const TemporaryFolder folder;
  const std::string environment = "unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA; BRIM_CPU_ISA=" + isa +
                                  " BRIM_TEST_OUT=" + in_quotes(folder / "out");
  EXPECT_EQ(run_child(environment, "Computes"), 0) << isa;
  return nlohmann::json::parse(slurp(folder / "out"), nullptr, false);
}

/// How many floats a vector holds, on which the order of a sum depends; 0 where that is not known.
int floats_of([[maybe_unused]] const std::string& isa) {
#if HWY_ARCH_X86
  return isa.starts_with("avx512") || isa.starts_with("avx3") ? 16 : isa == "avx2" ? 8 : 4;
#else
  return 0;
#endif
}

TEST(CpuIsa, EachHasKernelsOfItsOwn) {
  const std::vector<std::string>& isas = cpu::available_isas();
  std::vector<nlohmann::json> all;
  for (const std::string& isa : isas) {
    all.push_back(computed(isa));
    ASSERT_TRUE(all.back().contains("sums")) << isa;
  }
  for (size_t i = 1; i < isas.size(); ++i) {
    const nlohmann::json &better = all[i - 1], &lesser = all[i];
    const std::string both = isas[i - 1] + " and " + isas[i];
    if (floats_of(isas[i - 1]) != floats_of(isas[i])) {
      EXPECT_NE(better["sums"], lesser["sums"]) << both;
    }
    if (lesser.contains("target")) {
      EXPECT_LT(better["target"], lesser["target"]) << both;
    }
  }
  EXPECT_EQ(computed("baseline"), all.back());
#if BRIM_HAVE_DNNL && HWY_ARCH_X86
  using dnnl::cpu_isa;
  for (size_t i = 0; i < isas.size(); ++i) {
    const auto held = static_cast<cpu_isa>(all[i]["dnnl"].get<int>());
    if (floats_of(isas[i]) == 16) {
      EXPECT_GT(held, cpu_isa::avx2) << isas[i];
    } else {
      EXPECT_EQ(held, isas[i] == "avx2" ? cpu_isa::avx2 : cpu_isa::sse41) << isas[i];
    }
  }
#endif
}

TEST(CpuIsa, BaselineIsTheLeast) {
  const Ran ran = run_brim({"env", "--json"}, "export BRIM_CPU_ISA=baseline;");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto cpu = nlohmann::json::parse(ran.out)["cpu"];
  EXPECT_EQ(cpu["isa"], cpu::available_isas().back());
  EXPECT_EQ(cpu["isa_error"], "");
}

TEST(CpuIsa, TextThatIsNoUtf8IsToldAllTheSame) {
  const Ran ran = run_brim({"env", "--json"}, "export BRIM_CPU_ISA='\xff';");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string error = nlohmann::json::parse(ran.out)["cpu"]["isa_error"];
  EXPECT_NE(error.find("BRIM_CPU_ISA is '\xEF\xBF\xBD'"), std::string::npos) << error;
}

}  // namespace
}  // namespace brim::command
