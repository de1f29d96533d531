// Stream capture that other threads do not notice.
#pragma once

#include <mutex>

#include <cuda_runtime.h>

#include "backend/cuda/runtime/runtime.h"

namespace brim::cuda {

/// While it lives, what this thread queues on `stream` is captured, not run. The capture is that of
/// a stream of its own: whatever another thread queues on `stream` at the same time runs as ever,
/// as launches on a stream that is being captured would become part of the graph, whoever makes
/// them. CUDA C++ Programming Guide, "CUDA Graphs", stream capture.
class Capture {
 public:
  explicit Capture(Stream stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends it. The graph is then the caller's; null, and `result` says why, if there is none.
  cudaGraph_t end(cudaError_t& result);

  /// What stands for `stream` in this thread; null: itself.
  static cudaStream_t native(Stream stream) {
    return current_ && current_->stream_ == stream ? current_->own_ : nullptr;
  }

 private:
  static thread_local constinit const Capture* current_;
  Stream stream_;
  cudaStream_t own_ = nullptr;
};

/// While it lives, no capture begins. False where there is one already: what waits for streams
/// would break it, as they may have become part of it.
class NoCapture {
 public:
  NoCapture();
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Runs a call that a capture of this thread would refuse, although it has no part in it: of
/// memory, as a plan that found too little of it gives the graph up and has more for the next one.
/// cudaThreadExchangeStreamCaptureMode in CUDA's runtime API.
template <class F>
cudaError_t outside_captures(const F& call) {
  struct Mode {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    Mode() { BRIM_CUDA(cudaThreadExchangeStreamCaptureMode(&mode)); }
    ~Mode() { (void)cudaThreadExchangeStreamCaptureMode(&mode); }
  };
  const Mode relaxed;
  return call();
}

}  // namespace brim::cuda
