// What lasts longer than a process, or is settled once in it: choices that are kept, and libraries
// that are missing, too old or made for another CUDA. Each case is a process of its own, which runs
// one of the disabled tests here over the fakes.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include <brim/train/trainer.h>

#include "backend/cuda/libraries_fixture.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim {
namespace {

using tests::CudaLibraries;

/// Run in a process of its own; prints what was asked for.
struct CudaLibrariesChild : CudaLibraries {
  void SetUp() override {}
  void print() const {
    for (const std::string& line : asked()) std::printf("asked: %s\n", line.c_str());
  }
};

TEST_F(CudaLibrariesChild, DISABLED_Products) {
  find_fakes();
  const Tensor a = ones({24, 40}, {.device = cuda});
  EXPECT_EQ(matmul(a, a.t()).to(Device::cpu()).to_vector<float>(), std::vector<float>(576, 40));
  const Tensor x = ones({1, 4, 6, 6}, {.device = cuda}), w = ones({4, 4, 3, 3}, {.device = cuda});
  EXPECT_EQ(conv2d(x, w).to(Device::cpu()).to_vector<float>(), std::vector<float>(64, 36));
  std::printf("tf32: %s\n", Tf32::missing(cuda).c_str());
  print();
}

TEST_F(CudaLibrariesChild, DISABLED_TrainInTf32) {
  tests::TemporaryFolder folder;
  tests::write_tiny_cifar(folder / "data", 20);
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.precision = "tf32";
  try {
    // Eagerly: a plan takes brim's own fused kernels, which have no TF32.
    train::Trainer trainer(recipe, {.devices = {cuda}, .max_steps = 2, .compile = false});
    EXPECT_EQ(trainer.train().steps, 2);
  } catch (const Error& e) {
    std::printf("error: %s\n", e.what());
  }
  find_fakes();
  print();
}

TEST_F(CudaLibrariesChild, DISABLED_Recurrent) {
  find_fakes();
  for (const DType dtype : {f32, bf16}) {
    nn::LSTM net({.in = 3, .hidden = 4, .dtype = dtype, .device = cuda});
    EXPECT_EQ(net(ones({5, 2, 3}, {.dtype = dtype, .device = cuda})).shape(), (Shape{5, 2, 4}));
  }
  print();
}

class CudaLibrariesProcess : public CudaLibraries {
 protected:
  /// What a child says, in this environment ("A=b C=d").
  std::string run(const std::string& environment, const std::string& test = "Products") const {
    int code = 0;
    const std::string text = run(environment, test, code);
    EXPECT_EQ(code, 0) << text;
    return text;
  }
  /// What a child says that has to fail.
  std::string fails(const std::string& environment) const {
    int code = 0;
    const std::string text = run(environment, "Products", code);
    EXPECT_NE(code, 0) << text;
    return text;
  }
  std::string run(const std::string& environment, const std::string& test, int& code) const {
    const std::string command = "BRIM_TEST_CACHE=own XDG_CACHE_HOME=" + cache.path() + " env " +
                                environment + " '" +
                                std::filesystem::read_symlink("/proc/self/exe").string() +
                                "' --gtest_also_run_disabled_tests --gtest_brief=1 "
                                "--gtest_filter=CudaLibrariesChild.DISABLED_" +
                                test + " 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
    code = pclose(pipe);
    return text;
  }
  static int occurrences(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  tests::TemporaryFolder cache;
};

TEST_F(CudaLibrariesProcess, ChoicesAreKept) {
  const std::string first = run(""), second = run("");
  EXPECT_GT(occurrences(first, "asked: matmul"), 3) << first;
  EXPECT_GT(occurrences(first, "asked: cudnnConvolutionForward"), 3) << first;
  // Tried once, then used.
  EXPECT_EQ(occurrences(second, "asked: matmul"), 2) << second;
  EXPECT_EQ(occurrences(second, "algorithm 1"), 4) << second;
  EXPECT_EQ(occurrences(second, "asked: cudnnConvolutionForward"), 2) << second;
  EXPECT_FALSE(has(first + second, "warning")) << first << second;
}

TEST_F(CudaLibrariesProcess, ChoicesAreExplained) {
  EXPECT_FALSE(has(run("BRIM_CUDA_EXPLAIN=0"), "choice: "));
  std::filesystem::remove_all(cache / "brim");
  const std::string first = run("BRIM_CUDA_EXPLAIN=1"), second = run("BRIM_CUDA_EXPLAIN=1");
  EXPECT_EQ(occurrences(first, "brim: choice: [matmul] "), 1) << first;
  EXPECT_EQ(occurrences(first, "brim: choice: [conv2d] "), 1) << first;
  EXPECT_TRUE(has(first, " of 4 candidates; '")) << first;
  EXPECT_TRUE(has(first, " us (eager ")) << first;
  EXPECT_TRUE(has(first, ", nodes 1)")) << first;
  EXPECT_FALSE(has(first, ", nodes 0)")) << first;
  EXPECT_EQ(occurrences(second, "as an earlier run has measured"), 2) << second;
  const std::string unkept = run("-u HOME -u XDG_CACHE_HOME BRIM_CUDA_EXPLAIN=1");
  EXPECT_EQ(occurrences(unkept, "as nothing is kept from run to run"), 2) << unkept;
}

TEST_F(CudaLibrariesProcess, SettingsThatAreNoneAreRefused) {
  for (const auto& [setting, why] :
       {std::pair{"BRIM_CUDA_SMALL=some", "BRIM_CUDA_SMALL='some' is no number; use 0 or more"},
        {"BRIM_CUDA_EXPLAIN=yes", "BRIM_CUDA_EXPLAIN='yes' is no switch; use 1 or 0"},
        {"BRIM_CUDA_CHECK=on", "BRIM_CUDA_CHECK='on' is no switch; use 1 or 0"},
        {"BRIM_EMULATED_AT_ONCE=2", "BRIM_EMULATED_AT_ONCE='2' is no switch; use 1 or 0"}}) {
    const std::string said = fails(setting);
    EXPECT_TRUE(has(said, why)) << said;
  }
}

TEST_F(CudaLibrariesProcess, ADamagedFileIsMeasuredAnew) {
  (void)run("");
  const std::string path = cache / "brim/cuda_algorithms.json";
  for (const char* damage : {"{\"version\":", "{\"version\":1,\"machines\":{\"a\":[]}}"}) {
    std::ofstream(path) << damage;
    const std::string said = run("");
    EXPECT_TRUE(has(said, "warning: [cache] " + path)) << said;
    EXPECT_GT(occurrences(said, "asked: matmul"), 3) << said;
    EXPECT_EQ(occurrences(run(""), "asked: matmul"), 2);
  }
  // Choices that no library proposes are measured anew, too.
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (size_t at = text.find("\": \""); at != std::string::npos; at = text.find("\": \"", at + 4))
    text.replace(at, 4, "\": \"99");
  std::ofstream(path) << text;
  EXPECT_GT(occurrences(run(""), "asked: matmul"), 3);
}

TEST_F(CudaLibrariesProcess, WhereNothingIsKeptNothingIsMeasured) {
  const std::string said = run("-u HOME -u XDG_CACHE_HOME");
  EXPECT_EQ(occurrences(said, "asked: matmul"), 2) << said;
  EXPECT_EQ(occurrences(said, "algorithm 0"), 4) << said;  // the heuristics' first
}

TEST_F(CudaLibrariesProcess, OldOrMismatchedLibrariesAreNotUsed) {
  const std::string old = run("BRIM_FAKE=old");
  EXPECT_EQ(occurrences(old, "warning"), 2) << old;
  EXPECT_TRUE(has(old, "is of version 120900, and 13 is needed: install the CUDA 13")) << old;
  EXPECT_TRUE(has(old, "is of version 8907, and 90000 is needed: apt-get install")) << old;
  EXPECT_EQ(occurrences(old, "asked"), 0) << old;
  const std::string mismatched = run("BRIM_FAKE=mismatched");
  EXPECT_TRUE(has(mismatched, "slower kernels compute convolutions, because cuDNN")) << mismatched;
  EXPECT_TRUE(has(mismatched, "was built for CUDA 12, not 13: apt-get")) << mismatched;
  EXPECT_GT(occurrences(mismatched, "asked: matmul"), 0) << mismatched;
}

TEST_F(CudaLibrariesProcess, LibrariesThatCannotBeginAreToldOnce) {
  const std::string said = run("BRIM_FAKE='cudnnCreate cublasLtCreate'");
  EXPECT_EQ(occurrences(said, "warning"), 2) << said;
  EXPECT_TRUE(has(said, "compute matrix products, because cuBLASLt")) << said;
  EXPECT_TRUE(has(said, "compute convolutions, because cuDNN")) << said;
  EXPECT_TRUE(has(said, "cannot begin (cudnnCreate: CUDNN_STATUS_")) << said;
  EXPECT_TRUE(has(said, "perhaps its parts are of several versions: apt-get")) << said;
  EXPECT_EQ(occurrences(said, "asked"), 0) << said;
}

TEST_F(CudaLibrariesProcess, MissingLibrariesAreToldOnce) {
  const std::string said = run("-u BRIM_CUDA_LIBRARIES");
  EXPECT_EQ(occurrences(said, "warning"), 2) << said;
  EXPECT_TRUE(has(said, "because cuBLASLt (libcublasLt.so.13) is not there: install")) << said;
  EXPECT_TRUE(has(said, "because cuDNN (libcudnn.so.9) is not there: apt-get")) << said;
  EXPECT_TRUE(has(said, "tf32: cuBLASLt (libcublasLt.so.13) is not there")) << said;
}

TEST_F(CudaLibrariesProcess, RecurrentLayersAreCudnnsFromItsVersionsOn) {
  const std::string now = run("", "Recurrent"), before = run("BRIM_FAKE=9.12", "Recurrent");
  EXPECT_EQ(occurrences(now, "asked: cudnnRNNForward lstm type 0"), 1) << now;
  EXPECT_EQ(occurrences(now, "asked: cudnnRNNForward lstm type 9"), 1) << now;
  EXPECT_EQ(occurrences(before, "asked: cudnnRNNForward lstm type 0"), 1) << before;
  EXPECT_EQ(occurrences(before, "asked: cudnnRNNForward"), 1) << before;
  EXPECT_FALSE(has(now + before, "warning")) << now << before;
  const std::string without = run("-u BRIM_CUDA_LIBRARIES", "Recurrent");
  EXPECT_EQ(occurrences(without, "compute recurrent layers, because cuDNN"), 1) << without;
}

TEST_F(CudaLibrariesProcess, TrainsInTf32WhereTheLibrariesAre) {
  const std::string said = run("", "TrainInTf32");
  // Of so few rows brim's own kernels make the layers and their gradients.
  EXPECT_EQ(occurrences(said, "matmul compute"), 0) << said;
  EXPECT_GT(occurrences(said, "cudnnConvolutionBackwardFilter type 0 math 0"), 0) << said;
  EXPECT_EQ(occurrences(said, "math 3"), 0) << said;
  const std::string without = run("-u BRIM_CUDA_LIBRARIES", "TrainInTf32");
  EXPECT_TRUE(has(without,
                  "error: [train] precision tf32 on cuda:0 needs NVIDIA's libraries, but cuBLASLt "
                  "(libcublasLt.so.13) is not there: install"))
      << without;
  EXPECT_TRUE(has(without, "or use Recipe::precision=fp32")) << without;
}

}  // namespace
}  // namespace brim
