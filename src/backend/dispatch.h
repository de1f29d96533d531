// Runs a kernel that was found for its device, or queues it, and measures it.
#pragma once

#include <span>
#include <type_traits>

#include <brim/core/stream.h>

#include "backend/sim/launch.h"
#include "backend/touches.h"
#include "core/context.h"
#include "diag/span.h"

namespace brim::backend {

/// The op whose kernel this thread is queueing on a device that works asynchronously; else null.
extern thread_local constinit const char* queued_op [[gnu::tls_model("initial-exec")]];

/// Names it in a scope; kernels of one op may call another's.
class QueuedOp {
 public:
  explicit QueuedOp(const char* name) : before_(queued_op) { queued_op = name; }
  ~QueuedOp() { queued_op = before_; }
  QueuedOp(const QueuedOp&) = delete;
  QueuedOp& operator=(const QueuedOp&) = delete;

 private:
  const char* before_;
};

/// Looks at what an op is about to do on a CUDA stream.
using CheckWork = void (*)(const Stream& stream, const char* name, std::span<const Touch> touches);
/// Null while nobody checks.
extern CheckWork check_cuda_work;

/// `operations` may be null (see Kernel). Virtual accelerators compute with the CPU's `function`.
template <class... Args>
void dispatch(const Context& context, const char* name, DType dtype,
              void (*function)(const Context&, Args...),
              double (*operations)(const std::remove_reference_t<Args>&...),
              std::type_identity_t<Args>... args) {
  if (context.stream.device.kind == DeviceKind::sim) [[unlikely]] {
    const diag::Span span(name, diag::Cause::launch);
    sim::launch(name, context.stream, dtype, operations ? operations(args...) : -1, function,
                args...);
  } else if (context.stream.device.kind == DeviceKind::cuda) [[unlikely]] {
    const diag::Span span(name, diag::Cause::launch);
    const QueuedOp op(name);
    if (check_cuda_work) [[unlikely]]
      check_cuda_work(context.stream, name, touches_of<Args...>(args...));
    function(context, args...);
  } else {
    const diag::Span span(name, diag::Cause::compute);
    function(context, args...);
  }
}

}  // namespace brim::backend
