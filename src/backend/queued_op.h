// Which op a thread is queueing, for errors that a device reports.
#pragma once

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

}  // namespace brim::backend
