// For tests of what the CUDA backend asks of NVIDIA's libraries: over the emulation and fakes of
// them (BRIM_BACKEND_PATH and BRIM_CUDA_LIBRARIES=build/fakes), which note what they are asked.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <brim/brim.h>

namespace brim::tests {

using Lines = std::vector<std::string>;

/// Skipped where the fakes are not in the libraries' place.
class CudaLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    find_fakes();
    if (!blas || !dnn) GTEST_SKIP() << "no fakes of NVIDIA's libraries";
    (void)asked();
  }
  void find_fakes() {
    blas = find("libcublasLt.so.13");
    dnn = find("libcudnn.so.9");
  }
  void TearDown() override { unsetenv("BRIM_FAKE"); }

  /// What the fakes are to do now; see their `wanted`.
  static void let(const char* behaviour) { setenv("BRIM_FAKE", behaviour, 1); }

  /// What both libraries were asked for since the last call.
  Lines asked() const {
    Lines all;
    for (Calls* calls : {blas, dnn}) {
      if (!calls) continue;
      std::istringstream text(calls());
      for (std::string line; std::getline(text, line);) all.push_back(line);
    }
    return all;
  }
  static int count(const Lines& lines, const std::string& part) {
    int n = 0;
    for (const std::string& line : lines) n += line.find(part) != std::string::npos;
    return n;
  }

  const Device cuda = Device(DeviceKind::cuda, 0);

 private:
  using Calls = const char*();
  static Calls* find(const std::string& soname) {
    const char* folder = std::getenv("BRIM_CUDA_LIBRARIES");
    if (!folder) return nullptr;
    void* const library = dlopen((folder + ("/" + soname)).c_str(), RTLD_LAZY | RTLD_LOCAL);
    return library ? reinterpret_cast<Calls*>(dlsym(library, "brim_fake_calls")) : nullptr;
  }
  Calls* blas = nullptr;
  Calls* dnn = nullptr;
};

}  // namespace brim::tests
