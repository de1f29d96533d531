// What compiles formulas at run time, without a device: NVRTC itself where it is there, and the
// cache of its code, over a fake of NVRTC (tests/fakes/nvrtc.cpp).
#include "backend/cuda/compile/formula_code.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "environment.h"
#include "examples/own_op/softsign.h"
#include "extend/formula_ops.h"
#include "extend/text_formulas.h"
#include "message_of.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using cuda::CodeCache;
using cuda::Nvrtc;
using extend::formula_text;
using extend::FormulaText;
using extend::GradientOf;
using extend::Slope;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A formula of the text alone.
FormulaText text_of(const char* definition) { return {"broken", "Broken", definition, 1}; }
constexpr const char* kBroken =
    "struct Broken : brim::extend::Formula { template <class T> BRIM_FORMULA T operator()(T x) "
    "const { "
    "const T a = x; return a * unknown; } };";

// NVRTC itself. ------------------------------------------------------------------------------

class FormulaCodeByNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (BRIM_SANITIZED) GTEST_SKIP() << "what NVRTC does with memory is its own";
    if (!nvrtc.problem().empty()) GTEST_SKIP() << nvrtc.problem();
    if (nvrtc.version() == "NVRTC 13.99") GTEST_SKIP() << "a fake of NVRTC is in its place";
  }
  /// Machine code, an ELF file for CUDA (EM_CUDA, 190), that has the kernel.
  void expect_compiles(const FormulaText& formula, DType dtype, int capability) {
    const cuda::FormulaCode code = cuda::formula_code(nvrtc, none, formula, dtype, capability);
    ASSERT_GT(code.bytes.size(), 1000u);
    EXPECT_EQ(code.bytes.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ(static_cast<unsigned char>(code.bytes[18]), 190);
    EXPECT_TRUE(contains(code.bytes, cuda::formula_kernel_name(formula))) << formula.type;
  }
  template <class F>
  void expect_all(int capability, std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) {
      expect_compiles(*formula_text<F>(), dtype, capability);
      expect_compiles(*formula_text<Slope<F, 0>>(), dtype, capability);
      expect_compiles(*formula_text<Slope<Slope<F, 0>, 0>>(), dtype, capability);
      if constexpr (extend::kInputs<F> == 2)
        expect_compiles(*formula_text<Slope<Slope<F, 1>, 1>>(), dtype, capability);
      else
        expect_compiles(*formula_text<GradientOf<F>>(), dtype, capability);
    }
  }

  const Nvrtc nvrtc{cuda::open_nvrtc(&open_cuda_library)};
  CodeCache none{""};
};

TEST_F(FormulaCodeByNvrtc, CompilesForEveryGpu) {
  for (const int capability : {75, 80, 86, 87, 89, 90, 100, 120})
    if (!nvrtc.target("softsign", capability).is_ptx) {
      expect_compiles(*formula_text<GradientOf<own::Softsign>>(), f32, capability);
      expect_compiles(*formula_text<own::Softsign>(), bf16, capability);
    }
}

TEST_F(FormulaCodeByNvrtc, CompilesEveryFormulaAndDType) {
  expect_all<own::Softsign>(90, {f32, f64, f16, bf16});
  expect_all<TextSwish>(90, {f32});
  expect_all<GuidedRelu>(90, {f16});
  expect_all<TextEverything>(90, {f32, f64});
  expect_all<LogAddExp>(90, {f32, bf16});
}

TEST_F(FormulaCodeByNvrtc, CompilesToPtxForGpusThatItDoesNotKnow) {
  const cuda::CodeTarget target = nvrtc.target("softsign", 990);
  EXPECT_TRUE(target.is_ptx);
  EXPECT_TRUE(target.arch.starts_with("compute_")) << target.arch;
  const std::string ptx =
      nvrtc.compile(cuda::formula_program(*formula_text<own::Softsign>(), f32), target);
  EXPECT_TRUE(contains(ptx, ".version")) << ptx.substr(0, 200);
  EXPECT_TRUE(contains(ptx, ".entry formula_softsign"));
  EXPECT_EQ(ptx.back(), '\0');
  // f32 is computed in f32, by the functions of that name.
  EXPECT_FALSE(contains(ptx, ".f64"));
}

TEST_F(FormulaCodeByNvrtc, TheLogIsInTheError) {
  const std::string message = message_of<NotImplemented>(
      [&] { (void)cuda::formula_code(nvrtc, none, text_of(kBroken), f32, 90); });
  EXPECT_TRUE(contains(message, "[broken] its formula does not compile for GPUs")) << message;
  EXPECT_TRUE(contains(message, "identifier \"unknown\" is undefined")) << message;
  EXPECT_TRUE(contains(message, "return a * unknown;")) << message;
}

// Its fake. ----------------------------------------------------------------------------------

class FormulaCode : public testing::Test {
 protected:
  void SetUp() override {
    if (BRIM_SANITIZED) GTEST_SKIP() << "the fake compiles with options that know no sanitizer";
    const char* const build = std::getenv("BRIM_BUILD_DIR");
    const std::string path = std::string(build ? build : "build") + "/fakes/libnvrtc.so.13";
    opened.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    opened.path = path;
    if (!opened.handle) GTEST_SKIP() << "no fake of NVRTC";
    calls = reinterpret_cast<const char* (*)()>(dlsym(opened.handle, "brim_fake_calls"));
    (void)calls();
  }
  /// Softsign for a GPU of compute capability 9.0.
  cuda::FormulaCode code(CodeCache& cache, bool afresh = false) {
    return cuda::formula_code(Nvrtc(opened), cache, *formula_text<own::Softsign>(), f32, 90,
                              afresh);
  }
  /// What is said on standard error while `f` runs.
  template <class F>
  static std::string said(const F& f) {
    testing::internal::CaptureStderr();
    f();
    return testing::internal::GetCapturedStderr();
  }
  fs::path only_file() const {
    fs::path found;
    int count = 0;
    for (const auto& entry : fs::directory_iterator(where())) found = entry.path(), ++count;
    EXPECT_EQ(count, 1);
    return found;
  }
  std::string where() const { return folder / "kept"; }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  TemporaryFolder folder;
  OpenedLibrary opened;
  const char* (*calls)() = nullptr;
};

TEST_F(FormulaCode, IsKept) {
  const Environment fake("BRIM_FAKE", "instant-nvrtc");
  CodeCache cache(where());
  const cuda::FormulaCode first = code(cache);
  EXPECT_FALSE(first.was_kept);
  EXPECT_EQ(std::string(calls()), "softsign --std=c++20 -default-device -arch=sm_90\n");
  CodeCache later(where());
  cuda::FormulaCode again;
  EXPECT_EQ(said([&] { again = code(later); }), "");
  EXPECT_TRUE(again.was_kept);
  EXPECT_EQ(again.bytes, first.bytes);
  EXPECT_EQ(std::string(calls()), "");
  EXPECT_FALSE(code(later, true).was_kept);  // afresh
  (void)only_file();
}

TEST_F(FormulaCode, DifferentOnesLieInDifferentFiles) {
  const Environment fake("BRIM_FAKE", "instant-nvrtc");
  CodeCache cache(where());
  const Nvrtc nvrtc(opened);
  const FormulaText& softsign = *formula_text<own::Softsign>();
  for (const int capability : {80, 90})
    EXPECT_FALSE(cuda::formula_code(nvrtc, cache, softsign, f32, capability).was_kept);
  EXPECT_FALSE(cuda::formula_code(nvrtc, cache, softsign, bf16, 90).was_kept);
  FormulaText changed = softsign;
  changed.text =
      "struct Softsign : brim::extend::Formula { template <class T> BRIM_FORMULA T operator()(T x) "
      "const { "
      "return x; } };";
  EXPECT_FALSE(cuda::formula_code(nvrtc, cache, changed, f32, 90).was_kept);
  EXPECT_TRUE(cuda::formula_code(nvrtc, cache, softsign, f32, 80).was_kept);
}

TEST_F(FormulaCode, ADamagedFileIsMadeAnew) {
  const Environment fake("BRIM_FAKE", "instant-nvrtc");
  CodeCache cache(where());
  const std::string bytes = code(cache).bytes;
  const fs::path file = only_file();
  const std::string whole = contents(file);
  std::string flipped = whole, longer = whole + "x", huge = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (size_t i = 8; i < 24; ++i) huge[i] = '\xff';  // its sizes
  std::string other_key = whole;
  other_key[40] = static_cast<char>(other_key[40] ^ 1);
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), flipped, longer,
        huge, other_key, std::string("something else altogether, and long enough for a head")}) {
    write(file, damaged);
    cuda::FormulaCode again;
    const std::string warning = said([&] { again = code(cache); });
    EXPECT_FALSE(again.was_kept) << damaged.size();
    EXPECT_EQ(again.bytes.size(), bytes.size());
    EXPECT_TRUE(contains(warning, "brim: warning: [cache] " + file.string())) << warning;
    EXPECT_TRUE(contains(warning, "damaged")) << warning;
    EXPECT_TRUE(contains(warning, "compiling again")) << warning;
    EXPECT_TRUE(code(cache).was_kept);  // the new one
  }
}

TEST_F(FormulaCode, AStaleFileIsMadeAnew) {
  const Environment fake("BRIM_FAKE", "instant-nvrtc");
  CodeCache cache(where());
  (void)code(cache);
  const std::string file = only_file().filename().string();
  cache.keep(file, "another brim", "its code");
  cuda::FormulaCode again;
  const std::string warning = said([&] { again = code(cache); });
  EXPECT_FALSE(again.was_kept);
  EXPECT_TRUE(contains(warning, "it is stale; compiling again")) << warning;
  EXPECT_EQ(said([&] { again = code(cache); }), "");
  EXPECT_TRUE(again.was_kept);
}

TEST_F(FormulaCode, WithoutAPlaceItIsCompiledAgain) {
  const Environment fake("BRIM_FAKE", "instant-nvrtc");
  write(where(), "a file where the folder should be");
  CodeCache cache(where());
  const std::string warning = said([&] {
    EXPECT_FALSE(code(cache).bytes.empty());
    EXPECT_FALSE(code(cache).was_kept);
  });
  EXPECT_TRUE(contains(warning, "[cache] cannot write " + where())) << warning;
  EXPECT_EQ(warning.find("cannot write"), warning.rfind("cannot write")) << warning;
  CodeCache none("");
  EXPECT_EQ(said([&] { (void)code(none); }), "");
}

TEST_F(FormulaCode, GpusThatNvrtcDoesNotKnowGetPtx) {
  const Environment fake("BRIM_FAKE", "few-gpus");
  const Nvrtc nvrtc(opened);
  const auto arch = [&](int capability) { return nvrtc.target("op", capability).arch; };
  EXPECT_EQ(arch(80), "sm_80");
  EXPECT_EQ(arch(86), "sm_80");  // machine code runs on later ones of a generation
  EXPECT_EQ(arch(90), "compute_80");
  const std::string message = message_of<NotImplemented>([&] { (void)arch(70); });
  EXPECT_TRUE(contains(message, "[op] NVRTC 13.99 compiles for no GPU of compute capability 7.0"))
      << message;
}

TEST_F(FormulaCode, AnNvrtcThatIsAbsentOrTooOldIsAnError) {
  CodeCache none("");
  const FormulaText& softsign = *formula_text<own::Softsign>();
  const auto message_with = [&](const Nvrtc& nvrtc) {
    return message_of<NotImplemented>(
        [&] { (void)cuda::formula_code(nvrtc, none, softsign, f32, 90); });
  };
  const std::string absent = message_with(Nvrtc(OpenedLibrary()));
  for (const char* part :
       {"[softsign] has no kernel for this GPU", "NVRTC (libnvrtc.so.13) is not there",
        "nvidia-cuda-nvrtc", "docs/OWN_OPS.md"})
    EXPECT_TRUE(contains(absent, part)) << absent;
  const std::string broken =
      message_with(Nvrtc({nullptr, "/lib/libnvrtc.so.13", "file too short"}));
  EXPECT_TRUE(contains(broken, "/lib/libnvrtc.so.13) does not open: file too short")) << broken;
  const Environment fake("BRIM_FAKE", "old-nvrtc");
  const std::string old = message_with(Nvrtc(opened));
  EXPECT_TRUE(contains(old, "is of CUDA 11.8, and 12 is needed: install")) << old;
}

TEST_F(FormulaCode, WhatElseFailsIsNoFaultOfTheFormula) {
  const Environment fake("BRIM_FAKE", "broken-nvrtc");
  CodeCache none("");
  const std::string message = message_of<NotImplemented>([&] { (void)code(none); });
  EXPECT_TRUE(contains(message,
                       "[softsign] NVRTC 13.99 fails for sm_90: "
                       "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"))
      << message;
}

TEST_F(FormulaCode, TheLogIsInTheError) {
  CodeCache cache(where());
  const std::string message = message_of<NotImplemented>(
      [&] { (void)cuda::formula_code(Nvrtc(opened), cache, text_of(kBroken), f32, 90); });
  EXPECT_TRUE(contains(message, "[broken] its formula does not compile for GPUs")) << message;
  EXPECT_TRUE(contains(message, "unknown")) << message;
  EXPECT_FALSE(fs::exists(where()));  // nothing is kept of it
}

TEST_F(FormulaCode, TheNewestNvrtcIsOpened) {
  static std::string asked;
  asked.clear();
  (void)cuda::open_nvrtc([](const std::string& soname) {
    asked += soname + " ";
    return OpenedLibrary();
  });
  EXPECT_EQ(asked, "libnvrtc.so.13 libnvrtc.so.12 ");
}

}  // namespace
}  // namespace brim::tests
