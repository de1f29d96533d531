// See gpu_parts.h. The signatures of the functions asked here are those of NVIDIA's headers, which
// brim is not compiled with.
#include "diag/gpu_parts.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cctype>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "core/runtime.h"

namespace brim::diag {
namespace {

constexpr int kCuda = 13000;            // 1000 * major + 10 * minor, as CUDA counts
constexpr int kCupti = 130001;          // before, disabling its records could deadlock
constexpr const char* kDriver = "580";  // the first driver with CUDA 13
constexpr int kCudnn = 90000;           // 10000 * major + 100 * minor + patch, as cuDNN 9 counts
constexpr int kNccl = 22800;            // the same

std::string cuda_version(int64_t v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }
std::string library_version(int64_t v) {
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

/// The function `name` of a library as a pointer of its type; nullptr if it has none.
template <class F>
F* function(const GpuProbe& probe, const OpenedLibrary& library, const char* name) {
  return reinterpret_cast<F*>(probe.symbol(library.handle, name));
}

/// A version that a function returns, or writes and returns 0; 0 if the function is not there.
int64_t returned_version(const GpuProbe& probe, const OpenedLibrary& library, const char* name) {
  auto* f = function<size_t()>(probe, library, name);
  return f ? static_cast<int64_t>(f()) : 0;
}
int64_t written_version(const GpuProbe& probe, const OpenedLibrary& library, const char* name) {
  auto* f = function<int(int*)>(probe, library, name);
  int version = 0;
  return f && f(&version) == 0 ? version : 0;
}

/// The first word of "NVRM version: ... 580.65.06 ..." that is digits and points.
std::string module_version(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    const std::string word = line.substr(begin, end - begin);
    begin = end + 1;
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == word.npos)
      return word;
  }
  return "";
}

/// Opens the first of `sonames`, and says in `part` what came of it. A handle: go on and ask it.
OpenedLibrary look_for(const GpuProbe& probe, GpuPart& part,
                       std::initializer_list<const char*> sonames, const std::string& install) {
  part.state = "missing";
  part.advice = install;
  for (const char* soname : sonames) {
    OpenedLibrary library = probe.open(soname);
    if (!library.handle && library.error.empty()) continue;
    part.path = library.path;
    if (library.handle) {
      part.state = "found";
      part.advice = "";
    } else {
      part.state = "broken";
      part.advice = fmt::format("it does not open: {}", library.error);
    }
    return library;
  }
  return {};
}

void too_old(GpuPart& part, const std::string& needed, const std::string& install) {
  part.state = "too old";
  part.advice = fmt::format("{} or newer is needed: {}", needed, install);
}

/// The library is there, but the backend was built where its header was not.
void built_without(const GpuProbe& probe, GpuPart& part, bool has, const std::string& header,
                   const std::string& install) {
  if (part.state != "found" || probe.plugin.path.empty() || has) return;
  part.state = "unused";
  part.advice =
      fmt::format("brim was built without {}: {}, then build brim again", header, install);
}

GpuPart driver(const GpuProbe& probe) {
  GpuPart part{.name = "NVIDIA driver",
               .purpose =
                   "drives the GPU: a kernel module and libcuda.so.1. Belongs to the machine, "
                   "neither to the CUDA toolkit nor to pip"};
  const std::string install = fmt::format(
      "install driver {0} or newer (on Ubuntu apt-get install nvidia-driver-{0}-server, elsewhere "
      "from "
      "NVIDIA's repository), then reboot; a container gets it from its host (docker run --gpus "
      "all)",
      kDriver);
  const OpenedLibrary library = look_for(probe, part, {"libcuda.so.1"}, install);
  part.version = module_version(probe.kernel_module);
  if (!library.handle) {
    if (!part.version.empty() && part.state == "missing")
      part.advice =
          "the kernel module is loaded but libcuda.so.1 is not found: install the libraries "
          "of the same driver version, or pass them to the container (--gpus all)";
    return part;
  }
  const int64_t cuda = written_version(probe, library, "cuDriverGetVersion");
  part.version +=
      fmt::format("{}for CUDA {}", part.version.empty() ? "" : ", ", cuda_version(cuda));
  if (cuda < kCuda) too_old(part, fmt::format("driver {}", kDriver), install);
  return part;
}

GpuPart cuda_runtime(const GpuProbe& probe) {
  GpuPart part{
      .name = "CUDA runtime",
      .purpose =
          "starts kernels and copies. Part of brim's libbrim_cuda.so, which is built where "
          "the CUDA toolkit (nvcc) is; to run brim no toolkit is needed"};
  part.path = probe.plugin.path;
  if (part.path.empty()) {
    part.state = "missing";
    part.advice = probe.plugin.error;
  } else if (probe.build.runtime == 0) {
    part.state = "found";
    part.version = "emulated";
  } else {
    part.state = "found";
    part.version = cuda_version(probe.build.runtime);
  }
  if (!part.path.empty() && !probe.no_device.empty()) {
    part.state = "no GPU";
    part.advice = probe.no_device;
  }
  return part;
}

GpuPart cublas(const GpuProbe& probe) {
  GpuPart part{.name = "cuBLASLt", .purpose = "matrix products. Part of the CUDA toolkit"};
  const std::string install = "install the CUDA 13 toolkit, or pip install nvidia-cublas";
  const OpenedLibrary library =
      look_for(probe, part, {"libcublasLt.so.13", "libcublasLt.so.12"}, install);
  if (!library.handle) return part;
  const int64_t version = returned_version(probe, library, "cublasLtGetVersion");
  part.version = library_version(version);
  if (version < 10 * kCuda) too_old(part, "13.0", install);
  return part;
}

GpuPart cudnn(const GpuProbe& probe) {
  GpuPart part{.name = "cuDNN",
               .purpose = "convolutions. A package of its own, in neither driver nor toolkit"};
  const std::string install =
      "apt-get install cudnn9-cuda-13 (NVIDIA's repository), or pip install nvidia-cudnn-cu13";
  const OpenedLibrary library = look_for(probe, part, {"libcudnn.so.9", "libcudnn.so.8"}, install);
  if (!library.handle) return part;
  const int64_t version = returned_version(probe, library, "cudnnGetVersion");
  part.version = version < 10000
                     ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
                     : library_version(version);
  const int64_t cuda = returned_version(probe, library, "cudnnGetCudartVersion");
  if (version < kCudnn) {
    too_old(part, "9.0", install);
  } else if (cuda && cuda / 1000 != kCuda / 1000) {
    part.state = "mismatched";
    part.advice = fmt::format("it was built for CUDA {}: {}", cuda_version(cuda), install);
  }
  built_without(probe, part, probe.build.cudnn, "cudnn.h",
                "apt-get install cudnn9-cuda-13, or pip install nvidia-cudnn-cu13 with its include "
                "folder in CPLUS_INCLUDE_PATH");
  return part;
}

GpuPart nvrtc(const GpuProbe& probe) {
  GpuPart part{
      .name = "NVRTC",
      .purpose = "compiles the formulas of custom ops at run time. Part of the CUDA toolkit"};
  const std::string install =
      "needed for custom ops only that no plugin has kernels of: install NVIDIA's "
      "cuda-nvrtc-13-0, or pip install nvidia-cuda-nvrtc";
  const OpenedLibrary library =
      look_for(probe, part, {"libnvrtc.so.13", "libnvrtc.so.12"}, install);
  if (!library.handle) return part;
  int major = 0, minor = 0;
  auto* version = function<int(int*, int*)>(probe, library, "nvrtcVersion");
  if (version && version(&major, &minor) == 0) part.version = fmt::format("{}.{}", major, minor);
  return part;
}

GpuPart nccl(const GpuProbe& probe) {
  GpuPart part{.name = "NCCL",
               .purpose = "carries what ranks send from GPU to GPU. A package of its own"};
  const std::string install =
      "needed for ranks on several GPUs only: apt-get install libnccl2, or pip install "
      "nvidia-nccl-cu13";
  const OpenedLibrary library = look_for(probe, part, {"libnccl.so.2"}, install);
  if (!library.handle) return part;
  const int64_t version = written_version(probe, library, "ncclGetVersion");
  part.version = library_version(version);
  if (version < kNccl) too_old(part, "2.28", install);
  built_without(probe, part, probe.build.nccl, "nccl.h",
                "apt-get install libnccl-dev, or pip install nvidia-nccl-cu13 with its include "
                "folder in CPLUS_INCLUDE_PATH");
  return part;
}

GpuPart nvml(const GpuProbe& probe) {
  GpuPart part{
      .name = "NVML",
      .purpose = "tells utilisation, temperature, power and clocks. Comes with the driver"};
  const OpenedLibrary library =
      look_for(probe, part, {"libnvidia-ml.so.1"}, "install the driver's nvidia-utils package");
  if (!library.handle) return part;
  auto* init = function<int()>(probe, library, "nvmlInit_v2");
  auto* version = function<int(char*, unsigned)>(probe, library, "nvmlSystemGetNVMLVersion");
  constexpr int kVersionMismatch = 18;
  const int result = init ? init() : -1;
  char text[96] = "";
  if (result == 0 && version && version(text, sizeof text) == 0) part.version = text;
  if (result == kVersionMismatch) {
    part.state = "mismatched";
    part.advice = "the driver was updated but its old kernel module still runs: reboot";
  } else if (result != 0) {
    part.state = "broken";
    part.advice =
        fmt::format("nvmlInit fails with {}: is the driver running? nvidia-smi tells", result);
  }
  return part;
}

GpuPart cupti(const GpuProbe& probe, bool has_driver) {
  GpuPart part{.name = "CUPTI",
               .purpose = "records when each kernel ran, for traces. Part of the CUDA toolkit"};
  const std::string install =
      "needed for traces only: install the CUDA 13 toolkit, or pip install nvidia-cuda-cupti";
  const OpenedLibrary library =
      look_for(probe, part, {"libcupti.so.13", "libcupti.so.12"}, install);
  if (!library.handle) return part;
  if (!has_driver) {
    // Some versions never return from cuptiGetVersion without a driver; the file's name tells
    // enough.
    const bool old = part.path.find(".so.12") != std::string::npos;
    part.version = old ? "12" : "13";
    if (old) too_old(part, "13.0", install);
    return part;
  }
  const int64_t version = written_version(probe, library, "cuptiGetVersion");
  // Since CUDA 13 as 10000 * major; before, a number that only grew.
  part.version = version < 10 * kCuda ? fmt::format("API {}", version) : library_version(version);
  if (version < kCupti) too_old(part, "13.0 Update 1", install);
  built_without(probe, part, probe.build.cupti, "cupti.h", "install the CUDA 13 toolkit");
  return part;
}

}  // namespace

GpuProbe gpu_probe() {
  GpuProbe probe;
  probe.symbol = [](void* handle, const char* symbol) { return dlsym(handle, symbol); };
  std::ifstream in("/proc/driver/nvidia/version");
  probe.kernel_module.assign(std::istreambuf_iterator<char>(in), {});
  probe.plugin = plugin(DeviceKind::cuda);
  if (probe.plugin.path.empty()) return probe;
  probe.no_device = runtime(DeviceKind::cuda).why_absent();
  if (void* handle = dlopen(probe.plugin.path.c_str(), RTLD_LAZY | RTLD_NOLOAD))
    if (auto* build =
            reinterpret_cast<decltype(&brim_cuda_build)>(dlsym(handle, "brim_cuda_build")))
      probe.build = *build();
  return probe;
}

std::vector<GpuPart> gpu_parts(const GpuProbe& probe) {
  const GpuPart first = driver(probe);
  const bool has_driver = first.state == "found" || first.state == "too old";
  return {first,        cuda_runtime(probe), cublas(probe), cudnn(probe),
          nvrtc(probe), nccl(probe),         nvml(probe),   cupti(probe, has_driver)};
}

}  // namespace brim::diag
