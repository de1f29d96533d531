// `--memory-limit` and `--host-limit` of the commands that run a network.
#pragma once

#include <brim/core/device.h>

#include <string>

namespace brim::command {

/// "2G"; "auto" or nothing: what is free. Throws UsageError for more than the device has.
void set_memory_limit(Device device, const std::string& text);
/// Of pinned memory for such devices. Nothing: no limit.
void set_host_limit(DeviceKind kind, const std::string& text);

}  // namespace brim::command
