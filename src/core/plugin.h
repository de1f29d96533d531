// Backends that are shared libraries of their own, opened when a device of their kind is first
// asked for. Nothing else of brim knows that CUDA exists.
#pragma once

#include <string>

#include <brim/core/device.h>

namespace brim {

/// What became of a kind's plugin.
struct Plugin {
  std::string path;   ///< of the library that was opened; empty if none was
  std::string error;  ///< one line: why it was not, and what to do; empty if it was
};

/// Opens the plugin of `kind`, once in a process; kinds that need none have neither path nor error.
/// The library is `libbrim_cuda.so` beside libbrim, or in the folder or at the path that
/// BRIM_BACKEND_PATH names. Its static objects register its runtime and kernels. Without the
/// variable it is opened only where the driver's library is there.
const Plugin& plugin(DeviceKind kind);

}  // namespace brim
