// `--device` of the commands that run a network: devices by name, or "auto".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/error.h>
#include <brim/dist/launch.h>

namespace brim::command {

/// The devices that a command works on.
struct ChosenDevices {
  std::string asked;  ///< as typed
  std::vector<Device> devices;
  std::string reason;  ///< why these; empty: the user named them

  /// "device cuda:1: most free memory of 2 GPUs (70.1 GiB)"; empty if the user named them.
  std::string line() const;
  /// {"asked": "auto", "reason": "..."}; the reason is null if the user named them.
  nlohmann::ordered_json json() const;
  /// What an error of a chosen GPU ends with: how to do without. Empty for other devices.
  std::string hint() const;
};

/// `asked`: one device or "auto". Throws DeviceError.
ChosenDevices choose_one(const std::string& asked);

/// `asked`: a list of devices or "auto". `before`: the devices of the checkpoint that the run goes
/// on from, or "". Auto stays there, but for one GPU, which is chosen anew: another may be free
/// now. Throws DeviceError.
ChosenDevices choose_devices(const std::string& asked, const std::string& before);

/// The device of one rank among several. `asked`: one device, a list with one for each rank of this
/// host, or "auto". Throws DeviceError.
ChosenDevices choose_for_rank(const std::string& asked, const dist::LaunchEnvironment& launched);

/// Tells which device was chosen, where somebody watches: on standard error if that is a terminal,
/// so that results on standard output stay alone.
void tell_choice(const ChosenDevices& chosen, bool quiet);

/// Does it; an error of a chosen GPU gets the hint. Out of memory is none of them.
template <class F>
auto on_chosen(const ChosenDevices& chosen, const F& action) {
  try {
    return action();
  } catch (const DeviceError& e) {
    const std::string hint = chosen.hint();
    if (hint.empty()) throw;
    throw DeviceError(e.what() + hint);
  }
}

}  // namespace brim::command
