// Ranges of addresses whose memory comes page by page: CUDA Driver API, "Virtual Memory
// Management".
#pragma once

#include <cstddef>

namespace brim::cuda {

/// What parts of a device's ranges begin and end at multiples of; 0 where the driver has none.
size_t range_page(int device);
/// Null where there are no addresses left.
void* reserve_range(int device, size_t bytes);
/// False where there is too little memory.
bool commit_range(int device, void* data, size_t bytes);
/// Waits for what is queued on the device. False where that cannot be done now, as a step is being
/// captured.
bool decommit_range(int device, void* data, size_t bytes) noexcept;

}  // namespace brim::cuda
