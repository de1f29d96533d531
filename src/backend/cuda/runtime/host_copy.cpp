// Copies of plans to pinned memory and back: nodes of their graphs as kernels are.
#include "backend/host_copy.h"

#include "core/runtime.h"

namespace brim::cuda {
namespace {

void offload(const Context& context, const Tensor& x, Tensor& y) {
  runtime(DeviceKind::cuda)
      .copy(y.raw(), Device::cpu(), x.raw(), context.stream.device, static_cast<size_t>(x.numel()),
            context.stream);
}

void fetch(const Context& context, const Tensor& x, Tensor& y) {
  runtime(DeviceKind::cuda)
      .copy_from_pinned(y.raw(), context.stream.device, x.raw(), static_cast<size_t>(x.numel()),
                        context.stream);
}

const bool registered =
    backend::register_kernel("offload", DeviceKind::cuda, DType::u8, &offload) &&
    backend::register_kernel("fetch", DeviceKind::cuda, DType::u8, &fetch);

}  // namespace
}  // namespace brim::cuda
