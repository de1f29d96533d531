// Runs a kernel that was found for its device, or queues it, and measures it.
#pragma once

#include <type_traits>

#include "backend/sim/launch.h"
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
    function(context, args...);
  } else {
    const diag::Span span(name, diag::Cause::compute);
    function(context, args...);
  }
}

}  // namespace brim::backend
