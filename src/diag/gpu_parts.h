// The parts a machine needs for GPUs: driver, CUDA runtime and NVIDIA's libraries. Each is looked
// for at run time; `brim env` prints what was found, what is wrong and what to do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/cuda_build.h"
#include "core/cuda_libraries.h"
#include "core/plugin.h"

namespace brim::diag {

/// One part, and what is the matter with it.
struct GpuPart {
  std::string name;   ///< "cuDNN"
  std::string state;  ///< "found", "too old", "mismatched", "broken", "unused", "no GPU", "missing"
  std::string version;  ///< "9.13.0"; empty if unknown
  std::string path;     ///< of the library; empty if missing
  std::string purpose;  ///< what it is for, in plain words
  std::string advice;   ///< what to do; empty if found
};

/// Where the facts come from; tests put their own here.
struct GpuProbe {
  std::function<OpenedLibrary(const std::string& soname)> open = open_cuda_library;
  std::function<void*(void* handle, const char* symbol)> symbol;  ///< dlsym
  std::string kernel_module;  ///< the text of /proc/driver/nvidia/version; empty without driver
  Plugin plugin;              ///< of brim's CUDA backend
  CudaBuild build;            ///< what the backend says of itself
  std::string no_device;      ///< why the backend finds no GPU; empty if it does
};

/// The probe of this machine.
GpuProbe gpu_probe();

/// All parts in the order in which they depend on one another, the driver first.
std::vector<GpuPart> gpu_parts(const GpuProbe& probe);

}  // namespace brim::diag
