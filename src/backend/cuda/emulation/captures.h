// What emulated streams capture instead of doing it, and the graphs that come of it. A stream that
// waits for captured work becomes part of the capture, as on a GPU (CUDA C++ Programming Guide,
// "Cross-stream Dependencies and Events"); the works of a graph are done one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

struct EmulatedGraph {
  std::vector<std::function<void()>> work;
  uint64_t number = 0;  // of the capture
  cudaStream_t origin = nullptr;
  struct Fork {
    size_t last = 0;      // of the works, what this stream captured last: its place + 1
    size_t joined = 0;    // how much of them the origin waits for
    bool waited = false;  // for any of it
  };
  std::map<cudaStream_t, Fork> forked;
  double spent = 0;      // milliseconds of a launch
  bool failed = false;   // the capture: it has seen what it must not
  uint64_t changes = 0;  // activity_changes() when it was made ready
  std::atomic<int> owners = 1;
};

namespace brim::cuda::emulation {

/// A place in a capture, which an event is recorded as.
struct CapturedMark {
  uint64_t capture = 0;  ///< its number; 0: the event was not recorded in one
  cudaStream_t stream = nullptr;
  size_t works = 0;  ///< that had been captured by then

  explicit operator bool() const { return capture != 0; }
};

/// Calls f(graph) and returns true if the stream is captured, by whatever thread.
bool with_capture(cudaStream_t stream, const std::function<void(EmulatedGraph&)>& f);
/// Adds work to what the stream is captured as.
void capture_work(cudaStream_t stream, std::function<void()> work);

CapturedMark mark_in_capture(cudaStream_t stream);
/// Has the stream wait for what was captured.
cudaError_t wait_in_capture(cudaStream_t stream, const CapturedMark& mark);

/// What would change the device's memory map ends the capture of this thread; whether it has one.
bool refused_in_capture();
/// Waiting for a stream ends its capture, whoever waits; whether it has one.
bool is_refused(cudaStream_t stream);

cudaError_t begin_capture(cudaStream_t stream);
/// The graph is null where there is an error.
cudaError_t end_capture(cudaStream_t stream, cudaGraph_t& graph);
void swap_capture_mode(cudaStreamCaptureMode& mode);

/// Graphs are shared by who launches them and who made them.
std::shared_ptr<EmulatedGraph> shared(EmulatedGraph* graph);
void release(EmulatedGraph* graph);

}  // namespace brim::cuda::emulation
