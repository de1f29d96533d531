// The memory of the emulated devices, which all allocations share.
#pragma once

#include <cstddef>

namespace brim::cuda::emulation {

/// False where a device's capacity is exhausted.
bool take_memory(size_t bytes);
void give_memory(size_t bytes);
/// Makes addresses those of devices, whether or not there is memory.
void add_device_addresses(void* data, size_t bytes);

}  // namespace brim::cuda::emulation
