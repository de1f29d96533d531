// Whether this machine can train as it is asked to, and what to do where it cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

#include "core/runtime_memory.h"
#include "diag/gpu_parts.h"
#include "diag/machine/machine.h"

namespace brim::command {

/// What a training is to use.
struct CheckRequest {
  std::string device = "auto";     ///< as `brim train --device`
  std::string precision = "fp32";  ///< fp32, tf32, fp16 or bf16
  std::string out;                 ///< folder of the run; "": none
  std::string data;                ///< a file or folder that is read; "": none
  int64_t memory = 0;              ///< free bytes on each device
  int64_t host_memory = 0;         ///< free bytes of the machine, or of its cgroup
  int64_t disk = 0;                ///< free bytes where `out` is
};

struct Finding {
  enum class State : uint8_t { ok, slow, failed };  ///< slow: it works, and not as well as it could
  std::string name;                                 ///< "NVIDIA driver", "cuda:0"
  State state = State::ok;
  std::string what;
  std::string cure;  ///< empty where it is ok
};

/// Of a device that is there.
struct DeviceFacts {
  std::string description;
  int compute_capability = 0;  ///< 75 for 7.5; 0: not of CUDA
  DeviceMemory memory;
  std::string error;  ///< of a product that was tried; "" where it was right
};

/// Where the facts come from; tests put their own here. Functions that try something on files
/// return errno, 0 where it worked.
struct MachineProbe {
  diag::GpuProbe gpu;
  std::string dev = "/dev";
  diag::MachineRoots roots;
  std::string isa_error;
  /// Throws DeviceError.
  std::function<std::vector<Device>(const std::string& asked)> devices;
  std::function<DeviceFacts(Device device, DType dtype)> facts;
  std::function<int(const std::string& path)> open_device;
  std::function<int(const std::string& folder)> write_into;
  std::function<int(const std::string& path)> read;
  std::function<int64_t(const std::string& folder)> free_bytes;
};

/// The probe of this machine: it computes a product on each device, and writes and removes a file
/// where the run is to lie.
MachineProbe machine_probe();

/// In the order in which they depend on one another.
std::vector<Finding> check_machine(const CheckRequest& request, const MachineProbe& probe);

/// Whether nothing failed.
bool is_ready(const std::vector<Finding>& findings);

/// Prints a line for each, or one JSON object.
void print_findings(const std::vector<Finding>& findings, const CheckRequest& request);
nlohmann::ordered_json to_json(const std::vector<Finding>& findings, const CheckRequest& request);

}  // namespace brim::command
