// BRIM_CPU_ISA: what it may name, and what is said where it names anything else.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <brim/ops/create.h>

#include "backend/cpu/isa.h"
#include "cli/run_brim.h"
#include "core/check.h"

namespace brim::cli {
namespace {

using namespace brim::tests;

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
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string line = "BRIM_CPU_ISA=none " + in_quotes(self) +
                           " --gtest_also_run_disabled_tests --gtest_brief=1 "
                           "--gtest_filter=CpuIsaChild.DISABLED_Allocates";
  EXPECT_EQ(std::system(line.c_str()), 0);
}

}  // namespace
}  // namespace brim::cli
