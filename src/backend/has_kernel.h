// Asks the kernel table, for code that chooses between kernels (the passes of a plan).
#pragma once

#include <string_view>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

namespace brim::backend {

/// Whether the device's backend has the kernel `name` for the dtype. Virtual accelerators have
/// those of the CPU.
bool has_kernel(std::string_view name, Device device, DType dtype);

}  // namespace brim::backend
