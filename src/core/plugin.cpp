// See plugin.h.
#include "core/plugin.h"

#include <brim/version.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>

#include "core/cuda_libraries.h"
#include "core/registration_faults.h"
#include "core/runtime.h"

extern "C" {
extern const char BRIM_CUDA_INTERFACE;  // see cuda_build.h
const char BRIM_CUDA_INTERFACE = 0;
}

namespace brim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kLibrary = "libbrim_cuda.so";
constexpr const char* kBuild = "brim_cuda_build";  // which only a backend has
constexpr const char* kInterface = "undefined symbol: brim_cuda_interface_";

/// The folder that libbrim was loaded from.
fs::path library_folder() {
  Dl_info info{};
  const void* const inside = reinterpret_cast<const void*>(&plugin);
  if (!dladdr(inside, &info) || !info.dli_fname) return {};
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? fs::path(info.dli_fname).parent_path() : path.parent_path();
}

Plugin open_cuda() {
  Plugin result;
  fs::path path;
  if (const char* given = std::getenv("BRIM_BACKEND_PATH"); given && *given) {
    std::error_code error;
    path = fs::is_directory(given, error) ? fs::path(given) / kLibrary : fs::path(given);
    if (!fs::exists(path, error)) {
      result.error = fmt::format("BRIM_BACKEND_PATH names {}, which is not there", path.string());
      return result;
    }
  } else {
    if (void* driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL); !driver) {
      result.error =
          "no NVIDIA driver (libcuda.so.1) on this machine; with a GPU in it, install "
          "driver 580 or newer";
      return result;
    }
    path = library_folder() / kLibrary;
    std::error_code error;
    if (!fs::exists(path, error)) {
      result.error = fmt::format("{} is not there; build brim where the CUDA toolkit is installed",
                                 path.string());
      return result;
    }
  }
  preload_cuda_libraries();
  const RegistrationFaults faults;
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    if (!dlsym(library, kBuild)) {
      result.error = fmt::format("{} is no CUDA backend of brim", path.string());
    } else if (!faults.first().empty()) {  // a name of its kernels was taken before it was opened
      withdraw_runtime(DeviceKind::cuda);
      result.error = fmt::format("{}: {}", path.string(), faults.first());
    } else {
      result.path = path.string();
    }
  } else {
    const char* error = dlerror();
    const std::string why = error ? error : "unknown error";
    if (why.find(kInterface) != std::string::npos)
      result.error = fmt::format(
          "{} was built with another version of brim than this {}; build and install both together",
          path.string(), BRIM_VERSION);
    else
      result.error = fmt::format("{} does not open: {}", path.string(), why);
  }
  return result;
}

}  // namespace

const Plugin& plugin(DeviceKind kind) {
  static const Plugin none;
  if (kind != DeviceKind::cuda) return none;
  static const Plugin cuda = open_cuda();
  return cuda;
}

}  // namespace brim
