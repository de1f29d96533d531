// Device names and queries.
#include <brim/core/device.h>

#include <algorithm>
#include <charconv>

#include "core/check.h"
#include "core/runtime.h"

namespace brim {
namespace {

thread_local constinit Device scope_device;  // default_device()

DeviceKind parse_kind(std::string_view text) {
  if (text == "cpu") return DeviceKind::cpu;
  if (text == "cuda" || text == "gpu") return DeviceKind::cuda;
  if (text == "sim") return DeviceKind::sim;
  if (text == "auto")
    raise<DeviceError>(
        "[device] 'auto' names no device: best_device(), alone, chooses one; "
        "here use cpu, cuda:N (alias gpu:N) or sim:N");
  raise<DeviceError>("[device] '{}' names no device; use cpu, cuda:N (alias gpu:N) or sim:N", text);
}

}  // namespace

std::string_view name(DeviceKind kind) {
  constexpr std::string_view kName[kDeviceKindCount] = {"cpu", "cuda", "sim"};
  return kName[static_cast<int>(kind)];
}

Device::Device(std::string_view text) {
  const size_t colon = text.find(':');
  kind = parse_kind(text.substr(0, colon));
  if (colon == std::string_view::npos) return;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  BRIM_CHECK(error == std::errc() && end == digits.data() + digits.size() && index >= 0,
             DeviceError, "[device] '{}' is no device index, in '{}'; use a number from 0", digits,
             text);
}

int Device::count(DeviceKind kind) { return runtime(kind).device_count(); }
int Device::count(std::string_view kind) { return count(parse_kind(kind)); }

std::vector<Device> Device::all(DeviceKind kind) {
  std::vector<Device> devices;
  for (int i = 0; i < count(kind); ++i) devices.emplace_back(kind, i);
  return devices;
}
std::vector<Device> Device::all(std::string_view kind) { return all(parse_kind(kind)); }

std::vector<Device> Device::list(std::string_view text) {
  std::vector<Device> devices;
  const auto add = [&](Device device) {
    BRIM_CHECK(std::find(devices.begin(), devices.end(), device) == devices.end(), DeviceError,
               "[device] {} stands twice in '{}'; name each device once", device.str(), text);
    devices.push_back(device);
  };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = word.find(':');
    if (colon == std::string_view::npos || word.substr(colon + 1) != "all") {
      add(Device(word));
      continue;
    }
    const std::vector<Device> found = all(word.substr(0, colon));
    if (found.empty()) {
      const std::string why = runtime(parse_kind(word.substr(0, colon))).why_absent();
      raise<DeviceError>("[device] '{}' names no device: {}; see `brim env`", word,
                         why.empty() ? "there is none of that kind" : why);
    }
    for (const Device device : found) add(device);
  }
  return devices;
}

std::string Device::str() const {
  return is_cpu() && index == 0 ? "cpu" : fmt::format("{}:{}", name(kind), index);
}

Device default_device() { return scope_device; }

DeviceScope::DeviceScope(Device device) : outer_(scope_device) {
  BRIM_CHECK(device.available(), DeviceError,
             "[DeviceScope] {} is not available; there are {} devices of its kind (try_gpu() falls "
             "back to the CPU)",
             device.str(), Device::count(device.kind));
  scope_device = device;
}
DeviceScope::~DeviceScope() { scope_device = outer_; }

Device try_gpu(int index) {
  const Device gpu = Device::cuda(index);
  return gpu.available() ? gpu : Device::cpu();
}

std::vector<Device> try_all_gpus() {
  std::vector<Device> devices = Device::all(DeviceKind::cuda);
  if (devices.empty()) devices.push_back(Device::cpu());
  return devices;
}

void check_available(Device device) {
  const int count = Device::count(device.kind);
  if (count == 0)
    if (const std::string why = runtime(device.kind).why_absent(); !why.empty())
      raise<DeviceError>("[device] {} is not available: {}; see `brim env`", device.str(), why);
  BRIM_CHECK(device.index >= 0 && device.index < count, DeviceError,
             "[device] {} does not exist: this process has {} {} device(s); see `brim env`",
             device.str(), count, name(device.kind));
}

}  // namespace brim
