// What `brim env` says about a GPU's parts, over libraries that are functions here.
#include "diag/gpu_parts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "environment.h"
#include "temporary_folder.h"

namespace brim::diag {
namespace {

namespace fs = std::filesystem;

// One variable a library: what its version function says.
int driver_version, nccl_version, cupti_version, nvml_result;
size_t cublas_version, cudnn_version, cudnn_cuda;

int ask_driver(int* v) { return *v = driver_version, 0; }
int ask_nccl(int* v) { return *v = nccl_version, 0; }
int ask_cupti(int* v) { return *v = cupti_version, 0; }
size_t ask_cublas() { return cublas_version; }
size_t ask_cudnn() { return cudnn_version; }
size_t ask_cudnn_cuda() { return cudnn_cuda; }
int ask_nvrtc(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
int start_nvml() { return nvml_result; }
int ask_nvml(char* text, unsigned size) {
  std::snprintf(text, size, "13.580.65.06");
  return 0;
}

template <class F>
void* address(F* f) {
  return reinterpret_cast<void*>(f);
}

class GpuParts : public ::testing::Test {
 protected:
  GpuParts() {
    driver_version = 13000, nccl_version = 22809, cupti_version = 130001, nvml_result = 0;
    cublas_version = 130100, cudnn_version = 91300, cudnn_cuda = 13000;
    for (const char* soname : {"libcuda.so.1", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2",
                               "libnvidia-ml.so.1", "libcupti.so.13", "libnvrtc.so.13"})
      there[soname] = {this, std::string("/lib/") + soname, ""};
    probe.open = [this](const std::string& soname) {
      const auto at = there.find(soname);
      return at == there.end() ? OpenedLibrary{} : at->second;
    };
    probe.symbol = [](void*, const char* name) -> void* {
      const std::map<std::string, void*> all = {{"cuDriverGetVersion", address(ask_driver)},
                                                {"ncclGetVersion", address(ask_nccl)},
                                                {"cuptiGetVersion", address(ask_cupti)},
                                                {"cublasLtGetVersion", address(ask_cublas)},
                                                {"cudnnGetVersion", address(ask_cudnn)},
                                                {"cudnnGetCudartVersion", address(ask_cudnn_cuda)},
                                                {"nvrtcVersion", address(ask_nvrtc)},
                                                {"nvmlInit_v2", address(start_nvml)},
                                                {"nvmlSystemGetNVMLVersion", address(ask_nvml)}};
      const auto at = all.find(name);
      return at == all.end() ? nullptr : at->second;
    };
    probe.kernel_module =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
        "GCC version:  gcc version 12.3.0\n";
    probe.plugin = {.path = "/lib/libbrim_cuda.so", .error = ""};
    probe.build = {.runtime = 13000, .cudnn = true, .cupti = true, .nccl = true};
  }

  GpuPart part(const std::string& name) const {
    for (const GpuPart& p : gpu_parts(probe))
      if (p.name == name) return p;
    ADD_FAILURE() << "no part " << name;
    return {};
  }

  std::map<std::string, OpenedLibrary> there;
  GpuProbe probe;
};

TEST_F(GpuParts, EverythingThere) {
  const std::map<std::string, std::string> versions = {
      {"NVIDIA driver", "580.65.06, for CUDA 13.0"},
      {"CUDA runtime", "13.0"},
      {"cuBLASLt", "13.1.0"},
      {"cuDNN", "9.13.0"},
      {"NVRTC", "13.0"},
      {"NCCL", "2.28.9"},
      {"NVML", "13.580.65.06"},
      {"CUPTI", "13.0.1"}};
  const std::vector<GpuPart> parts = gpu_parts(probe);
  EXPECT_EQ(parts.size(), versions.size());
  for (const GpuPart& p : parts) {
    EXPECT_EQ(p.state, "found") << p.name << ": " << p.advice;
    EXPECT_EQ(p.version, versions.at(p.name)) << p.name;
    EXPECT_TRUE(p.path.starts_with("/lib/")) << p.name;
    EXPECT_TRUE(p.advice.empty()) << p.name;
    EXPECT_FALSE(p.purpose.empty()) << p.name;
  }
}

TEST_F(GpuParts, NothingThere) {
  there.clear();
  probe.kernel_module = "";
  probe.plugin = {.path = "", .error = "no NVIDIA driver (libcuda.so.1) on this machine"};
  for (const GpuPart& p : gpu_parts(probe)) {
    EXPECT_EQ(p.state, "missing") << p.name;
    EXPECT_TRUE(p.version.empty()) << p.name;
    EXPECT_FALSE(p.advice.empty()) << p.name;
  }
}

TEST_F(GpuParts, TooOld) {
  driver_version = 12080;
  EXPECT_EQ(part("NVIDIA driver").state, "too old");
  EXPECT_NE(part("NVIDIA driver").advice.find("driver 580 or newer"), std::string::npos);
  there.erase("libcudnn.so.9");
  there["libcudnn.so.8"] = {this, "/lib/libcudnn.so.8", ""};
  cudnn_version = 8907;
  EXPECT_EQ(part("cuDNN").state, "too old");
  EXPECT_EQ(part("cuDNN").version, "8.9.7");
  there.erase("libcublasLt.so.13");
  there["libcublasLt.so.12"] = {this, "/lib/libcublasLt.so.12", ""};
  cublas_version = 120905;
  EXPECT_EQ(part("cuBLASLt").state, "too old");
  EXPECT_EQ(part("cuBLASLt").version, "12.9.5");
  there.erase("libcupti.so.13");
  there["libcupti.so.12"] = {this, "/lib/libcupti.so.12", ""};
  cupti_version = 28;
  EXPECT_EQ(part("CUPTI").state, "too old");
  EXPECT_EQ(part("CUPTI").version, "API 28");
  there["libcupti.so.13"] = {this, "/lib/libcupti.so.13", ""};
  cupti_version = 130000;  // records are not taken from it, either
  EXPECT_EQ(part("CUPTI").state, "too old");
}

TEST_F(GpuParts, Mismatched) {
  cudnn_cuda = 12090;
  EXPECT_EQ(part("cuDNN").state, "mismatched");
  EXPECT_NE(part("cuDNN").advice.find("built for CUDA 12.9"), std::string::npos);
  nvml_result = 18;
  EXPECT_EQ(part("NVML").state, "mismatched");
  EXPECT_NE(part("NVML").advice.find("reboot"), std::string::npos);
  nvml_result = 9;
  EXPECT_EQ(part("NVML").state, "broken");
  probe.build.runtime = 0;
  EXPECT_EQ(part("CUDA runtime").version, "emulated");
  probe.no_device = "the NVIDIA driver shows no GPU";
  EXPECT_EQ(part("CUDA runtime").state, "no GPU");
  EXPECT_EQ(part("CUDA runtime").advice, probe.no_device);
  there.erase("libcuda.so.1");
  EXPECT_EQ(part("NVIDIA driver").state, "missing");
  EXPECT_EQ(part("NVIDIA driver").version, "580.65.06");
  EXPECT_NE(part("NVIDIA driver").advice.find("--gpus all"), std::string::npos);
}

TEST_F(GpuParts, WhatTheBackendWasBuiltWithoutIsUnused) {
  probe.build = {.runtime = 13000, .cudnn = false, .cupti = false, .nccl = false};
  EXPECT_EQ(part("cuDNN").state, "unused");
  EXPECT_NE(part("cuDNN").advice.find("built without cudnn.h"), std::string::npos);
  EXPECT_EQ(part("CUPTI").state, "unused");
  EXPECT_NE(part("CUPTI").advice.find("built without cupti.h"), std::string::npos);
  cudnn_cuda = 12090;  // first things first
  EXPECT_EQ(part("cuDNN").state, "mismatched");
  probe.plugin = {.path = "", .error = "there is no backend"};
  cudnn_cuda = 13000;
  EXPECT_EQ(part("cuDNN").state, "found");
}

TEST_F(GpuParts, FilesThatDoNotOpenAreBroken) {
  there["libnccl.so.2"] = {nullptr, "/lib/libnccl.so.2", "invalid ELF header"};
  EXPECT_EQ(part("NCCL").state, "broken");
  EXPECT_NE(part("NCCL").advice.find("invalid ELF header"), std::string::npos);
}

TEST_F(GpuParts, CuptiIsNotAskedWithoutADriver) {
  there.erase("libcuda.so.1");
  cupti_version = -1;
  EXPECT_EQ(part("CUPTI").state, "found");
  EXPECT_EQ(part("CUPTI").version, "13");
  there.erase("libcupti.so.13");
  there["libcupti.so.12"] = {this, "/lib/libcupti.so.12", ""};
  EXPECT_EQ(part("CUPTI").state, "too old");
}

TEST_F(GpuParts, LibrariesWithoutTheFunctionDoNotCrash) {
  probe.symbol = [](void*, const char*) -> void* { return nullptr; };
  for (const GpuPart& p : gpu_parts(probe)) EXPECT_FALSE(p.state.empty()) << p.name;
  EXPECT_EQ(part("cuDNN").state, "too old");
}

TEST(CudaLibraries, FoldersAndThoseOfPythonPackages) {
  const tests::TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  fs::create_directories(folder / "cudnn/lib");
  fs::create_directories(folder / "cu13/lib");
  fs::create_directories(folder / "cudnn/include");
  std::ofstream(folder / "cudnn/lib/libcudnn_of_brims_test.so.9") << "no library";
  tests::Environment folders("BRIM_CUDA_LIBRARIES", "/nowhere:" + folder.string());
  const std::vector<fs::path> want = {"/nowhere", folder, folder / "cu13/lib",
                                      folder / "cudnn/lib"};
  EXPECT_EQ(cuda_library_folders(), want);
  const OpenedLibrary broken = open_cuda_library("libcudnn_of_brims_test.so.9");
  EXPECT_EQ(broken.handle, nullptr);
  EXPECT_EQ(broken.path, folder / "cudnn/lib/libcudnn_of_brims_test.so.9");
  EXPECT_FALSE(broken.error.empty());
  const OpenedLibrary absent = open_cuda_library("libabsent_of_brims_test.so.9");
  EXPECT_EQ(absent.handle, nullptr);
  EXPECT_TRUE(absent.error.empty()) << absent.error;
  folders.set("");
  EXPECT_TRUE(cuda_library_folders().empty());
}

}  // namespace
}  // namespace brim::diag
