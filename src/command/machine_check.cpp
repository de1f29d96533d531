// See machine_check.h.
#include "command/machine_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "command/format.h"
#include "core/check.h"
#include "core/write_cure.h"
#include "diag/machine/parts.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

/// What brim's errors are made of: "[place] what; what to do".
Finding finding_of(const std::string& name, const std::string& error) {
  const size_t bracket = error.starts_with('[') ? error.find("] ") : std::string::npos;
  const std::string text = bracket == std::string::npos ? error : error.substr(bracket + 2);
  const size_t semicolon = text.find("; ");
  if (semicolon == std::string::npos) return {name, Finding::State::failed, text, "see `brim env`"};
  return {name, Finding::State::failed, text.substr(0, semicolon), text.substr(semicolon + 2)};
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

/// Whether code for "75,86,90-real" runs on a card. A number alone stands for code that newer cards
/// compile; "-real" for code of that card and later ones of its generation.
bool runs_on(const std::string& architectures, int capability) {
  for (size_t begin = 0; begin < architectures.size();) {
    const size_t end = std::min(architectures.find(',', begin), architectures.size());
    const std::string word = architectures.substr(begin, end - begin);
    begin = end + 1;
    int built = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), built).ec != std::errc())
      return true;  // native, all: CMake knows which
    const bool is_exact =
        word.find_first_not_of("0123456789") != word.npos && !word.ends_with("-virtual");
    if (is_exact ? capability / 10 == built / 10 && capability >= built : capability >= built)
      return true;
  }
  return false;
}

class MachineChecks {
 public:
  MachineChecks(const CheckRequest& request, const MachineProbe& probe)
      : request_(request), probe_(probe) {}

  std::vector<Finding> all() {
    check_cpu();
    check_host_memory();
    const bool wants_gpu =
        request_.device.starts_with("cuda") || request_.device.starts_with("gpu");
    if (wants_gpu && !is_emulated()) check_gpu_parts();
    if (is_ready(found_)) check_devices();
    if (!request_.data.empty()) check_data();
    if (!request_.out.empty()) check_out();
    return std::move(found_);
  }

 private:
  void ok(const std::string& name, const std::string& what) {
    found_.push_back({name, Finding::State::ok, what, ""});
  }
  void slow(const std::string& name, const std::string& what, const std::string& cure) {
    found_.push_back({name, Finding::State::slow, what, cure});
  }
  void fail(const std::string& name, const std::string& what, const std::string& cure) {
    found_.push_back({name, Finding::State::failed, what, cure});
  }
  bool is_emulated() const {
    return !probe_.gpu.plugin.path.empty() && probe_.gpu.build.runtime == 0;
  }

  void check_cpu() {
    if (probe_.isa_error.empty()) return ok("CPU", "brim's kernels run on it");
    found_.push_back(finding_of("CPU", probe_.isa_error));
  }

  void check_host_memory() {
    const diag::MemoryReading memory = diag::read_memory(probe_.roots);
    const diag::LimitReading limits = diag::LimitReader().read(probe_.roots, 0);
    int64_t& available = host_available_ = memory.available;
    const bool is_limited =
        limits.memory && *limits.memory - limits.memory_used.value_or(0) < available;
    if (is_limited) available = *limits.memory - limits.memory_used.value_or(0);
    if (is_limited)
      host_memory_cure_ =
          "raise the limit: docker run --memory, resources.limits.memory of a pod, sbatch --mem";
    const std::string what = fmt::format(
        "{} available{}", format_bytes(std::max<int64_t>(available, 0)),
        is_limited
            ? fmt::format(", within the limit of {} of its cgroup", format_bytes(*limits.memory))
            : "");
    if (available >= request_.host_memory) return ok("host memory", what);
    fail("host memory",
         fmt::format("{}; {} are asked for", what, format_bytes(request_.host_memory)),
         host_memory_cure_);
  }

  /// The files that a process needs of the driver. Containers get them from their host.
  void check_device_files() {
    const char* const kContainer =
        "give the container its GPUs: docker run --gpus all (with NVIDIA's container toolkit on "
        "the "
        "host), podman run --device nvidia.com/gpu=all, on Kubernetes resources.limits "
        "nvidia.com/gpu: 1, on Slurm sbatch --gpus";
    std::vector<std::string> files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(probe_.dev, ignored)) {
      const std::string name = entry.path().filename();
      const bool is_card = name.starts_with("nvidia") && name.size() > 6 &&
                           name.find_first_not_of("0123456789", 6) == name.npos;
      if (is_card || name == "nvidiactl" || name == "nvidia-uvm") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    if (files.empty() && !probe_.gpu.kernel_module.empty())
      return fail("GPU access",
                  fmt::format("the driver is loaded, and there is no {}/nvidia*", probe_.dev),
                  kContainer);
    for (const std::string& file : files)
      if (const int error = probe_.open_device(file))
        return fail(
            "GPU access", fmt::format("{} does not open: {}", file, std::strerror(error)),
            error == EACCES || error == EPERM
                ? std::string("let this user open it (chmod a+rw, or its group: ls -l shows "
                              "it); ") +
                      kContainer
                : std::string("nvidia-smi and dmesg say why"));
    if (!files.empty()) ok("GPU access", fmt::format("{}", fmt::join(files, " ")));
  }

  void check_gpu_parts() {
    check_device_files();
    const std::vector<diag::GpuPart> parts = diag::gpu_parts(probe_.gpu);
    const auto part = [&](const char* name) {
      return *std::ranges::find(parts, name, &diag::GpuPart::name);
    };
    for (const char* name : {"NVIDIA driver", "CUDA runtime"}) {
      if (!is_ready(found_)) return;  // what comes first is the cause
      const diag::GpuPart p = part(name);
      if (p.state == "found")
        ok(name, p.version);
      else
        fail(name, p.version.empty() ? p.state : fmt::format("{}: {}", p.state, p.version),
             p.advice);
    }
    if (!is_ready(found_)) return;
    for (const char* name : {"cuBLASLt", "cuDNN"}) {
      const diag::GpuPart p = part(name);
      if (p.state == "found")
        ok(name, p.version);
      else if (request_.precision == "tf32")
        fail(name, fmt::format("{}, and tf32 needs it", p.state), p.advice);
      else
        slow(name, fmt::format("{}: brim's own, slower kernels compute", p.state), p.advice);
    }
    const diag::GpuPart nccl = part("NCCL");
    if (nccl.state == "found") return ok("NCCL", nccl.version);
    nccl_ = {"NCCL", Finding::State::failed,
             fmt::format("{}, and ranks on several GPUs need it", nccl.state), nccl.advice};
  }

  DType dtype() const {
    return request_.precision == "bf16" ? bf16 : request_.precision == "fp16" ? f16 : f32;
  }

  void check_devices() {
    std::vector<Device> devices;
    try {
      devices = probe_.devices(request_.device);
    } catch (const Error& e) {
      found_.push_back(finding_of(request_.device, e.what()));
      return;
    }
    const auto gpus = std::ranges::count(devices, DeviceKind::cuda, &Device::kind);
    if (gpus > 1 && nccl_) found_.push_back(*nccl_);
    for (const Device device : devices) check_device(device);
  }

  void check_device(Device device) {
    const std::string name = device.str();
    const DeviceFacts facts = probe_.facts(device, dtype());
    const int capability = facts.compute_capability;
    const std::string built = probe_.gpu.build.architectures;
    if (device.kind == DeviceKind::cuda && capability > 0 && !built.empty() &&
        !runs_on(built, capability)) {
      constexpr int kLeast = 75;  // of CUDA 13
      return fail(
          name,
          fmt::format("compute capability {}, and this build of brim has kernels for {}",
                      capability_text(capability), built),
          capability < kLeast
              ? "brim needs 7.5 or more, as CUDA 13 does: use a newer card"
              : fmt::format("build it with -DBRIM_CUDA_ARCHITECTURES={}, or use another card",
                            capability));
    }
    if (!facts.error.empty()) {
      found_.push_back(finding_of(name, facts.error));
      return;
    }
    const auto free = device.is_cpu() ? std::max<int64_t>(host_available_, 0)
                                      : static_cast<int64_t>(facts.memory.free);
    if (device.is_cpu() && free < request_.memory)
      return fail(name,
                  fmt::format("{} available; {} are asked for", format_bytes(free),
                              format_bytes(request_.memory)),
                  host_memory_cure_);
    const std::string what = fmt::format("{}; {} free; a product in {} is right", facts.description,
                                         format_bytes(free), request_.precision);
    if (!device.is_cpu() && free < request_.memory)
      return fail(name,
                  fmt::format("{} of {} free; {} are asked for", format_bytes(free),
                              format_bytes(static_cast<int64_t>(facts.memory.total)),
                              format_bytes(request_.memory)),
                  "end what else runs there (nvidia-smi, brim top), use a smaller --batch, or a "
                  "larger card");
    check_precision(device, capability, what);
  }

  void check_precision(Device device, int capability, const std::string& what) {
    constexpr int kBf16 = 80;  // matrix units with bf16 and tf32
    const std::string& p = request_.precision;
    const std::string name = device.str();
    if (device.kind != DeviceKind::cuda && p != "fp32")
      return slow(name, what, fmt::format("{} is faster on GPUs alone: use fp32 here", p));
    if (device.kind == DeviceKind::cuda && capability > 0 && capability < kBf16 &&
        (p == "bf16" || p == "tf32"))
      return slow(
          name, what,
          fmt::format("its matrix units have no {} (compute capability {}, 8.0 has it): use "
                      "fp16",
                      p, capability_text(capability)));
    ok(name, what);
  }

  void check_data() {
    std::error_code ignored;
    if (fs::is_other(request_.data, ignored))  // opening a pipe would wait for a writer
      return fail("data", fmt::format("{} is a pipe, a socket or a device", request_.data),
                  "name a regular file or a folder");
    if (const int error = probe_.read(request_.data))
      fail("data", fmt::format("{} cannot be read: {}", request_.data, std::strerror(error)),
           error == ENOENT  ? "name a file or folder that is there; in a container mount it: -v "
                              "/host/data:/data:ro"
           : error == ELOOP ? "mend its symbolic links: they lead back to themselves"
                            : "let this user read it: chmod -R a+rX");
    else
      ok("data", request_.data);
  }

  void check_out() {
    const std::string name = "output";
    // What is not there yet is made in the nearest folder that is.
    std::error_code ignored;
    fs::path folder = fs::absolute(request_.out, ignored);
    while (!fs::exists(folder, ignored) && folder != folder.parent_path())
      folder = folder.parent_path();
    if (!fs::is_directory(folder, ignored))
      return fail(name, fmt::format("{} is no folder", folder.string()), "give --out another name");
    if (const int error = probe_.write_into(folder))
      return fail(name,
                  fmt::format("{} cannot be written: {}", folder.string(), std::strerror(error)),
                  write_cure(error, "give --out a folder elsewhere"));
    const int64_t free = probe_.free_bytes(folder);
    const std::string what = fmt::format("{}: {} free", folder.string(), format_bytes(free));
    if (free < request_.disk)
      return fail(name, fmt::format("{}; {} are asked for", what, format_bytes(request_.disk)),
                  "free room there, take a larger volume, or give --out a folder on another disk");
    ok(name, what);
  }

  const CheckRequest& request_;
  const MachineProbe& probe_;
  std::vector<Finding> found_;
  int64_t host_available_ = 0;  // bytes
  std::string host_memory_cure_ =
      "end other programs, take a machine with more memory, or fewer --workers";
  std::optional<Finding> nccl_;  ///< where it is not fit
};

}  // namespace

std::vector<Finding> check_machine(const CheckRequest& request, const MachineProbe& probe) {
  return MachineChecks(request, probe).all();
}

bool is_ready(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings,
                              [](const Finding& f) { return f.state == Finding::State::failed; });
}

}  // namespace brim::command
