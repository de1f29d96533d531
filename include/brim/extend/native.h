// A backend's own streams, for kernels that users write in its language.
#pragma once

#include <functional>

namespace brim {

struct Context;

namespace extend {

/// The handle of the stream that a kernel was called for: a cudaStream_t on GPUs, else null.
void* native_stream(const Context& context);
/// Makes `call`, once, with the kernel's device current; it queues work on that stream and returns
/// a cudaError_t. What the device reports of that work later names the op. Throws OutOfMemory or
/// DeviceError, with the device's words, where the code is an error. (Codes of other libraries,
/// such as a cublasStatus_t, mean other things: check them in `call`, return cudaErrorUnknown.)
void queue_native(const Context& context, const std::function<int()>& call);
/// As queue_native(), for a call that does nothing where it fails: it is made again where memory
/// was short that tensors no longer need.
void queue_repeatable(const Context& context, const std::function<int()>& call);

}  // namespace extend
}  // namespace brim
