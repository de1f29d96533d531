// What `brim env --check` finds, on machines that are made up.
#include "command/machine_check.h"

#include <brim/core/error.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "temporary_folder.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using command::CheckRequest;
using command::DeviceFacts;
using command::Finding;
using State = Finding::State;

int driver_here = 13000;
int driver_version(int* v) { return *v = driver_here, 0; }
size_t version_of_cublas() { return 130100; }
size_t version_of_cudnn() { return 91300; }
int version_of_nccl(int* v) { return *v = 22809, 0; }

template <class F>
void* address(F* f) {
  return reinterpret_cast<void*>(f);
}

/// A machine with two H100, which tests take something from.
class MachineCheck : public ::testing::Test {
 protected:
  MachineCheck() {
    driver_here = 13000;
    for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"})
      std::ofstream(dev / name);
    fs::create_directories(root / "proc");
    std::ofstream(root / "proc/meminfo") << "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n";
    probe.dev = dev.path();
    probe.roots = {.proc = root / "proc", .sys = root / "sys"};
    for (const char* soname :
         {"libcuda.so.1", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2"})
      libraries[soname] = {this, std::string("/lib/") + soname, ""};
    probe.gpu.open = [this](const std::string& soname) {
      const auto at = libraries.find(soname);
      return at == libraries.end() ? OpenedLibrary{} : at->second;
    };
    probe.gpu.symbol = [](void*, const char* name) -> void* {
      const std::map<std::string, void*> all = {{"cuDriverGetVersion", address(driver_version)},
                                                {"cublasLtGetVersion", address(version_of_cublas)},
                                                {"cudnnGetVersion", address(version_of_cudnn)},
                                                {"ncclGetVersion", address(version_of_nccl)}};
      const auto at = all.find(name);
      return at == all.end() ? nullptr : at->second;
    };
    probe.gpu.kernel_module = "NVRM version: NVIDIA UNIX Kernel Module  580.65.06  Release\n";
    probe.gpu.plugin = {.path = "/lib/libbrim_cuda.so", .error = ""};
    probe.gpu.build = {.runtime = 13000,
                       .cudnn = true,
                       .cupti = true,
                       .nccl = true,
                       .architectures = "75,80,86,90"};
    probe.devices = [](const std::string& asked) {
      if (asked == "cuda:all") return std::vector{Device::cuda(0), Device::cuda(1)};
      return std::vector{Device(asked)};
    };
    probe.facts = [this](Device device, DType) { return device.is_cpu() ? DeviceFacts() : card; };
    probe.open_device = probe.read = probe.write_into = [](const std::string&) { return 0; };
    probe.free_bytes = [](const std::string&) { return int64_t{1} << 40; };
    card = {.description = "NVIDIA H100",
            .compute_capability = 90,
            .memory = {.total = size_t{80} << 30, .free = size_t{79} << 30},
            .error = ""};
  }

  std::vector<Finding> check() const { return check_machine(request, probe); }
  /// The only finding that is not ok; its text.
  std::string only(State state) const {
    std::string text;
    for (const Finding& f : check()) {
      if (f.state == State::ok) continue;
      EXPECT_EQ(f.state, state) << f.what;
      EXPECT_TRUE(text.empty()) << text << " and " << f.what;
      EXPECT_FALSE(f.cure.empty()) << f.what;
      text = f.name + ": " + f.what + "; " + f.cure;
    }
    return text;
  }
  void expect(State state, const std::vector<std::string>& parts) const {
    const std::string text = only(state);
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }

  TemporaryFolder dev, root;
  std::map<std::string, OpenedLibrary> libraries;
  DeviceFacts card;
  command::MachineProbe probe;
  CheckRequest request{.device = "cuda:all", .precision = "bf16", .out = {}, .data = {}};
};

TEST_F(MachineCheck, IsReadyWhereNothingIsMissing) {
  request.out = root.path();
  request.data = root / "proc";
  const std::vector<Finding> found = check();
  EXPECT_TRUE(is_ready(found));
  EXPECT_EQ(only(State::failed), "");
  const auto json = to_json(found, request);
  EXPECT_EQ(json["ready"], true);
  EXPECT_EQ(json["checks"].size(), found.size());
  EXPECT_EQ(json["checks"][0]["cure"], nullptr);
}

TEST_F(MachineCheck, Drivers) {
  driver_here = 12040;
  expect(State::failed, {"NVIDIA driver: too old: 580.65.06, for CUDA 12.4", "driver 580"});
  libraries.erase("libcuda.so.1");
  expect(State::failed, {"NVIDIA driver", "libcuda.so.1 is not found"});
  probe.gpu.kernel_module = "";
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) fs::remove(dev / name);
  expect(State::failed, {"NVIDIA driver: missing", "install driver 580"});
}

TEST_F(MachineCheck, ContainersWithoutRights) {
  probe.open_device = [](const std::string& path) { return path.ends_with("1") ? EACCES : 0; };
  expect(State::failed, {"GPU access", "nvidia1 does not open: Permission denied", "chmod a+rw"});
  probe.open_device = [](const std::string&) { return EIO; };
  expect(State::failed, {"Input/output error", "dmesg"});
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) fs::remove(dev / name);
  expect(State::failed,
         {"there is no " + dev.path(), "docker run --gpus all", "nvidia.com/gpu: 1"});
}

TEST_F(MachineCheck, BuildsWithoutTheCard) {
  request.device = "cuda:0";
  card.error = "[matmul] no kernel image; see there";  // which is not the cause
  card.compute_capability = 70;
  expect(State::failed, {"cuda:0: compute capability 7.0, and this build of brim has kernels for "
                         "75,80,86,90; brim needs 7.5"});
  probe.gpu.build.architectures = "86,90-real";
  card.compute_capability = 80;
  expect(State::failed, {"8.0", "-DBRIM_CUDA_ARCHITECTURES=80"});
  card.error = "";
  for (const int newer : {86, 89, 90, 100}) {  // 86 is compiled for what is newer
    card.compute_capability = newer;
    EXPECT_EQ(only(State::failed), "") << newer;
  }
  probe.gpu.build.architectures = "90-real";
  card.compute_capability = 100;
  expect(State::failed, {"kernels for 90-real"});
  probe.gpu.build.architectures = "";  // not known
  EXPECT_EQ(only(State::failed), "");
}

TEST_F(MachineCheck, Libraries) {
  libraries.erase("libcudnn.so.9");
  expect(State::slow, {"cuDNN: missing: brim's own, slower kernels", "cudnn9-cuda-13"});
  request.precision = "tf32";
  expect(State::failed, {"tf32 needs it"});
  request.precision = "bf16";
  libraries["libcudnn.so.9"] = {this, "/lib/libcudnn.so.9", ""};
  libraries.erase("libnccl.so.2");
  expect(State::failed, {"NCCL: missing", "several GPUs", "libnccl2"});
  request.device = "cuda:0";  // which needs none
  EXPECT_EQ(only(State::failed), "");
  probe.gpu.no_device = "the NVIDIA driver shows no GPU; see nvidia-smi";
  expect(State::failed, {"CUDA runtime: no GPU", "nvidia-smi"});
}

TEST_F(MachineCheck, Devices) {
  request.device = "cuda:0";
  request.memory = int64_t{100} << 30;
  expect(State::failed, {"cuda:0: 79.0 GiB of 80.0 GiB free; 100.0 GiB are asked for", "--batch"});
  request.memory = 0;
  card.error = "[matmul] work queued on cuda:0 failed: unspecified; dmesg shows an Xid";
  expect(State::failed, {"cuda:0: work queued on cuda:0 failed: unspecified; dmesg"});
  card.error = "";
  probe.devices = [](const std::string&) -> std::vector<Device> {
    throw DeviceError("[device] cuda:7 does not exist: this process has 2 cuda device(s); see x");
  };
  expect(State::failed, {"cuda:0: cuda:7 does not exist", "; see x"});
}

TEST_F(MachineCheck, PrecisionsWithoutMatrixUnits) {
  request.device = "cuda:0";
  card.compute_capability = 75;
  expect(State::slow, {"no bf16 (compute capability 7.5, 8.0 has it): use fp16"});
  request.precision = "fp16";
  EXPECT_EQ(only(State::slow), "");
  request.device = "cpu";
  expect(State::slow, {"fp16 is faster on GPUs alone"});
}

TEST_F(MachineCheck, HostMemory) {
  request.device = "cpu";
  request.precision = "fp32";
  request.host_memory = int64_t{9} << 30;
  expect(State::failed, {"host memory: 8.0 GiB available; 9.0 GiB are asked for", "more memory"});
}

TEST_F(MachineCheck, Folders) {
  request.device = "cpu";
  request.precision = "fp32";
  request.out = root / "not/yet/there";
  EXPECT_EQ(only(State::failed), "");
  std::string tried;
  int error = EROFS;
  probe.write_into = [&](const std::string& folder) {
    tried = folder;
    return error;
  };
  expect(State::failed, {"output", "Read-only file system", "readOnly: false"});
  EXPECT_EQ(tried, root.path());
  error = ENOSPC;
  expect(State::failed, {"No space left", "take a larger volume"});
  error = EACCES;
  expect(State::failed, {"Permission denied", "fsGroup"});
  error = 0;
  request.disk = int64_t{2} << 40;
  expect(State::failed, {"1.0 TiB free; 2.0 TiB are asked for", "larger volume"});
  request.disk = 0;
  request.out = root / "proc/meminfo";
  expect(State::failed, {"is no folder"});
  request.out = "";
  request.data = "/data";
  probe.read = [](const std::string&) { return ENOENT; };
  expect(State::failed, {"data: /data cannot be read", "-v"});
  probe.read = [](const std::string&) { return ELOOP; };
  expect(State::failed, {"Too many levels of symbolic links", "mend its symbolic links"});
}

TEST_F(MachineCheck, DataThatWouldNeverEndIsNotOpened) {
  probe.read = [](const std::string& path) {
    ADD_FAILURE() << path << " is opened";
    return 0;
  };
  request.data = root / "pipe";
  ASSERT_EQ(mkfifo(request.data.c_str(), 0600), 0);
  expect(State::failed, {"pipe is a pipe, a socket or a device", "a regular file or a folder"});
  request.data = "/dev/null";
  expect(State::failed, {"/dev/null is a pipe, a socket or a device"});
}

TEST_F(MachineCheck, MemoryOfTheCpuIsTheHosts) {
  request.device = "cpu";
  request.precision = "fp32";
  request.memory = int64_t{8} << 30;
  EXPECT_EQ(only(State::failed), "");
  request.memory = int64_t{9} << 30;
  expect(State::failed, {"cpu: 8.0 GiB available; 9.0 GiB are asked for", "end other programs"});
}

}  // namespace
}  // namespace brim::tests
