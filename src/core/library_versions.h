// Which libraries a backend computes with, for what is measured and kept.
#pragma once

#include <string>

#include <brim/core/device.h>

namespace brim {

/// The libraries that kernels of `kind` use, with their versions: "cuBLASLt 130100, cuDNN 91900".
/// Empty where a backend has none. Opens them.
std::string library_versions(DeviceKind kind);
/// Backends with such libraries call this when they are loaded.
bool register_library_versions(DeviceKind kind, std::string (*versions)());

}  // namespace brim
