// Copies to the host and back on the CPU: of virtual accelerators, whose memory it is.
#include "backend/host_copy.h"

#include <cstring>

namespace brim::cpu {
namespace {

void copy(const Context&, const Tensor& x, Tensor& y) {
  std::memcpy(y.raw(), x.raw(), static_cast<size_t>(x.numel()));
}

const bool registered = backend::register_kernel("offload", DeviceKind::cpu, DType::u8, &copy) &&
                        backend::register_kernel("fetch", DeviceKind::cpu, DType::u8, &copy);

}  // namespace
}  // namespace brim::cpu
