// A backend's own streams, for kernels that users write in its language.
#pragma once

#include <functional>

namespace brim {

struct Context;

namespace extend {

/// The handle of the stream that a kernel was called for: a cudaStream_t on GPUs, else null.
void* native_stream(const Context& context);
/// Makes `call` with the kernel's device current; it queues work on that stream and returns CUDA's
/// error code. What the device reports of that work later names the op. Throws DeviceError, with
/// the device's words, where the code is an error.
void queue_native(const Context& context, const std::function<int()>& call);

}  // namespace extend
}  // namespace brim
