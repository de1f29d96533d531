// Copies between a device and pinned memory of the host, as launches of a plan.
#pragma once

#include "backend/kernel.h"

namespace brim::backend {

/// y = x: bytes (u8, contiguous, as many), of which one side lies in the device's memory and the
/// other in pinned memory of the host.
using HostCopy = Kernel<void(const Context&, const Tensor& x, Tensor& y)>;

const HostCopy& offload_kernel();  ///< "offload": to the host
const HostCopy& fetch_kernel();    ///< "fetch": to the device

inline bool is_host_copy(const Launch& launch) {
  return launch.work() == Work::to_host || launch.work() == Work::to_device;
}

}  // namespace brim::backend
