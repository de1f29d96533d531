// See nvrtc.h. NVRTC's documentation, "User Interface".
#include "backend/cuda/compile/nvrtc.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "backend/cuda/compile/device_headers.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr int kOldest = 12;           // the first with C++20
constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION
constexpr const char* kPlugin =
    "a plugin that registers the formula needs no NVRTC (docs/OWN_OPS.md)";

/// A log as one line, not too long.
std::string one_line(std::string_view log) {
  constexpr size_t kLongest = 2000;
  std::string result;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    while (line.starts_with(' ')) line.remove_prefix(1);
    if (line.empty() || line.find_first_not_of("^~ ") == line.npos) continue;
    if (result.size() + line.size() > kLongest) return result + " | ...";
    result.append(result.empty() ? "" : " | ").append(line);
  }
  return result;
}

}  // namespace

OpenedLibrary open_nvrtc(OpenedLibrary (*open)(const std::string& soname)) {
  OpenedLibrary first;
  for (const char* soname : kSonames) {
    OpenedLibrary found = open(soname);
    if (found.handle) return found;
    if (first.error.empty()) first = found;
  }
  return first;
}

Nvrtc::Nvrtc(const OpenedLibrary& opened)
    : DynamicLibrary("NVRTC", kSonames[0], opened,
                     "install NVIDIA's cuda-nvrtc-13-0, or pip's nvidia-cuda-nvrtc with its folder "
                     "in BRIM_CUDA_LIBRARIES"),
      find_version_(find("nvrtcVersion")),
      count_archs_(find("nvrtcGetNumSupportedArchs")),
      archs_of_(find("nvrtcGetSupportedArchs")),
      error_text_(find("nvrtcGetErrorString")),
      create_(find("nvrtcCreateProgram")),
      compile_(find("nvrtcCompileProgram")),
      destroy_(find("nvrtcDestroyProgram")),
      log_size_(find("nvrtcGetProgramLogSize")),
      ptx_size_(find("nvrtcGetPTXSize")),
      cubin_size_(find("nvrtcGetCUBINSize")),
      log_(find("nvrtcGetProgramLog")),
      ptx_(find("nvrtcGetPTX")),
      cubin_(find("nvrtcGetCUBIN")) {
  if (!problem().empty()) return;
  if (const std::string why = ask(); !why.empty()) reject(why);
}

std::string Nvrtc::ask() {
  constexpr int kMaxArchs = 1000;
  int major = 0, minor = 0, count = 0;
  if (find_version_(&major, &minor) != 0) return "does not say its version";
  version_ = fmt::format("NVRTC {}.{}", major, minor);
  if (major < kOldest)
    return fmt::format("is of CUDA {}.{}, and {} is needed", major, minor, kOldest);
  if (count_archs_(&count) == 0 && count > 0 && count <= kMaxArchs) {
    archs_.resize(static_cast<size_t>(count));
    if (archs_of_(archs_.data()) == 0) {
      std::sort(archs_.begin(), archs_.end());
      return {};
    }
  }
  return "does not say which GPUs it compiles for";
}

CodeTarget Nvrtc::target(const std::string& op, int capability) const {
  BRIM_CHECK(problem().empty(), NotImplemented,
             "[{}] has no kernel for this GPU, and its formula cannot be compiled, because {}; {}",
             op, problem(), kPlugin);
  const auto after = std::upper_bound(archs_.begin(), archs_.end(), capability);
  BRIM_CHECK(after != archs_.begin(), NotImplemented,
             "[{}] {} compiles for no GPU of compute capability {}.{}, but from {}.{} on: install "
             "an older one; {}",
             op, version_, capability / 10, capability % 10, archs_[0] / 10, archs_[0] % 10,
             kPlugin);
  const int arch = *std::prev(after);
  // Machine code runs on later GPUs of the same generation.
  if (arch / 10 == capability / 10) return {fmt::format("sm_{}", arch), false};
  return {fmt::format("compute_{}", arch), true};
}

std::string Nvrtc::read(Handle program, Size* size, Read* read) {
  constexpr size_t kMaxBytes = size_t{256} << 20;
  size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0 || bytes > kMaxBytes) return {};
  std::string text(bytes, '\0');
  return read(program, text.data()) == 0 ? text : std::string();
}

std::string Nvrtc::compile(const DeviceProgram& program, const CodeTarget& target) const {
  std::vector<const char*> names, texts;
  for (const DeviceHeader& header : device_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  const std::string arch = "-arch=" + target.arch;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(arch.c_str());

  Handle handle = nullptr;
  int result = create_(&handle, program.text.c_str(), program.name.c_str(),
                       static_cast<int>(names.size()), texts.data(), names.data());
  std::string log, code;
  if (result == 0) {
    result = compile_(handle, static_cast<int>(options.size()), options.data());
    log = one_line(read(handle, log_size_, log_).c_str());
    if (result == 0)
      code = target.is_ptx ? read(handle, ptx_size_, ptx_) : read(handle, cubin_size_, cubin_);
    (void)destroy_(&handle);
  }
  if (result == kCompilationError)
    raise<NotImplemented>(
        "[{}] its formula does not compile for GPUs ({}, {}): {}; a formula with a text uses "
        "nothing but its own members and what brim/extend/formula.h has",
        program.name, version_, target.arch, log);
  BRIM_CHECK(result == 0 && !code.empty(), NotImplemented, "[{}] {} fails for {}: {} {}; {}",
             program.name, version_, target.arch,
             result ? error_text_(result) : "it returns no code", log, kPlugin);
  return code;
}

}  // namespace brim::cuda
