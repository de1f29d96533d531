// Where spans and devices put their events while a Trace records.
#pragma once

#include <cstdint>

#include <brim/core/device.h>
#include <brim/diag/account.h>

namespace brim::diag {

/// True while a Trace records.
bool tracing();
/// An event of the calling thread.
void trace_host(const char* name, Cause cause, uint64_t begin, uint64_t end);
/// An event of a device's stream.
void trace_device(Device device, int stream, const char* name, Cause cause, uint64_t begin,
                  uint64_t end);

}  // namespace brim::diag
