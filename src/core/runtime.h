// What a backend must offer for its devices. One Runtime serves all devices of its kind. Kinds
// without a backend get one that counts 0 devices and throws.
#pragma once

#include <string>

#include <brim/core/device.h>

#include "core/runtime_errors.h"
#include "core/runtime_graphs.h"
#include "core/runtime_memory.h"
#include "core/runtime_streams.h"

namespace brim {

class Runtime : public MemoryRuntime,
                public StreamRuntime,
                public GraphRuntime,
                public ErrorRuntime {
 public:
  virtual int device_count() const = 0;
  /// Where device_count() is 0: why, and what to do, in one line; empty if there is no more to say.
  virtual std::string why_absent() const { return ""; }
  virtual std::string description(int device) const = 0;  ///< "AMD EPYC ..., 2 threads"
};

/// The runtime of a kind; one that throws DeviceError ("cuda is not available; ...") if absent.
Runtime& runtime(DeviceKind kind);
/// Backends call this when they are loaded. The runtime lives as long as the process.
void register_runtime(DeviceKind kind, Runtime& runtime);
/// Takes it back: for a backend that turned out unfit while it was opened.
void withdraw_runtime(DeviceKind kind);
/// Throws DeviceError naming `device` and how many of its kind there are, or why there are none.
void check_available(Device device);

}  // namespace brim
