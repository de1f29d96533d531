// See device_option.h.
#include "command/device_option.h"

#include <brim/diag/best_device.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "command/say.h"
#include "core/check.h"
#include "core/device_names.h"
#include "core/nearest.h"
#include "diag/gpu_parts.h"

namespace brim::command {
namespace {

constexpr const char* kAuto = "auto";

ChosenDevices best() {
  DeviceChoice choice = best_device();
  return {kAuto, {choice.device}, std::move(choice.reason)};
}

/// What parse(asked) gives; its error says so where "auto" was meant.
template <class Parse>
ChosenDevices named(const std::string& asked, const Parse& parse) {
  try {
    return {asked, parse(asked), ""};
  } catch (const DeviceError&) {
    if (asked.size() < 16 && asked != kAuto && edit_distance(asked, kAuto) <= 2)
      raise<DeviceError>("[device] '{}' names no device; did you mean 'auto'?", asked);
    throw;
  }
}

}  // namespace

std::string ChosenDevices::line() const {
  return reason.empty() ? "" : fmt::format("device {}: {}", names_of(devices), reason);
}

nlohmann::ordered_json ChosenDevices::json() const {
  nlohmann::ordered_json json{{"asked", asked}, {"reason", nullptr}};
  if (!reason.empty()) json["reason"] = reason;
  return json;
}

std::string ChosenDevices::hint() const {
  const bool is_one_gpu = devices.size() == 1 && devices[0].kind == DeviceKind::cuda;
  return reason.empty() || !is_one_gpu ? "" : "; to do without the GPU: --device cpu";
}

ChosenDevices choose_one(const std::string& asked) {
  if (asked == kAuto) return best();
  return named(asked, [](const std::string& text) { return std::vector{Device(text)}; });
}

ChosenDevices choose_devices(const std::string& asked, const std::string& before) {
  if (asked != kAuto)
    return named(asked, [](const std::string& text) { return Device::list(text); });
  std::vector<Device> devices;
  try {
    if (!before.empty()) devices = Device::list(before);
  } catch (const DeviceError&) {  // the checkpoint is damaged, as who loads it will say
  }
  const bool is_one_gpu = devices.size() == 1 && devices[0].kind == DeviceKind::cuda;
  if (devices.empty() || is_one_gpu) return best();
  return {kAuto, devices, "where the run was before"};
}

ChosenDevices choose_for_rank(const std::string& asked, const dist::LaunchEnvironment& launched) {
  const auto ranks = static_cast<size_t>(launched.local_size);
  const auto own = static_cast<size_t>(launched.local_rank);
  if (asked == kAuto) {
    if (best_device().device.kind != DeviceKind::cuda)
      return {kAuto, {Device::cpu()}, "no GPU here; for virtual accelerators: --device sim:0"};
    const std::vector<Device> gpus = Device::all("cuda");
    for (const diag::GpuPart& part : diag::gpu_parts(diag::gpu_probe()))
      if (part.name == "NCCL" && part.state != "found")
        return {kAuto, {Device::cpu()}, "ranks on GPUs need NCCL, which is " + part.state};
    if (gpus.size() >= ranks) return {kAuto, {gpus[own]}, "each rank has a GPU of its own"};
    return {kAuto,
            {Device::cpu()},
            fmt::format("this rank sees {} GPUs, and the ranks of its host are {}; where each sees "
                        "one of its own: --device cuda:0",
                        gpus.size(), ranks)};
  }
  ChosenDevices chosen = named(asked, [](const std::string& text) { return Device::list(text); });
  std::vector<Device>& devices = chosen.devices;
  BRIM_CHECK(
      devices.size() == 1 || devices.size() == ranks, DeviceError,
      "[device] {} devices for the {} ranks of this host: --device {}; name one for each rank",
      devices.size(), ranks, asked);
  // Where launchers give each rank a GPU, it sees that one alone; the first collective shows
  // if ranks share it.
  BRIM_CHECK(devices.size() == ranks || devices[0].kind != DeviceKind::cuda ||
                 Device::all("cuda").size() == 1,
             DeviceError,
             "[device] {} for all of the {} ranks of this host: a GPU is one rank's; name one for "
             "each, as --device cuda:all",
             devices[0].str(), ranks);
  if (devices.size() > 1) devices = {devices[own]};
  return chosen;
}

void tell_choice(const ChosenDevices& chosen, bool quiet) {
  if (!quiet && !chosen.reason.empty() && isatty(STDERR_FILENO) == 1)
    say(stderr, "{}\n", chosen.line());
}

}  // namespace brim::command
