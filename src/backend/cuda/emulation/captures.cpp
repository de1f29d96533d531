#include "backend/cuda/emulation/captures.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <cuda_runtime.h>

namespace brim::cuda::emulation {
namespace {

/// What this thread captures; null: nothing.
thread_local EmulatedGraph* captured = nullptr;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeThreadLocal;

/// The streams that are captured.
struct Captures {
  std::mutex mutex;
  std::map<cudaStream_t, EmulatedGraph*> of;
  uint64_t begun = 0;
};
Captures& captures() {
  static auto* all = new Captures;
  return *all;
}

}  // namespace

bool with_capture(cudaStream_t stream, const std::function<void(EmulatedGraph&)>& f) {
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().of.find(stream);
  if (found == captures().of.end()) return false;
  f(*found->second);
  return true;
}

bool is_captured(cudaStream_t stream) {
  return with_capture(stream, [](const EmulatedGraph&) {});
}
bool is_capturing() { return captured; }

void capture_work(cudaStream_t stream, std::function<void()> work) {
  (void)with_capture(stream, [&](EmulatedGraph& graph) {
    graph.work.push_back(std::move(work));
    if (stream != graph.origin) graph.forked[stream].last = graph.work.size();
  });
}

CapturedMark mark_in_capture(cudaStream_t stream) {
  CapturedMark mark;
  (void)with_capture(stream, [&](const EmulatedGraph& graph) {
    mark = {graph.number, stream, graph.work.size()};
  });
  return mark;
}

cudaError_t wait_in_capture(cudaStream_t stream, const CapturedMark& mark) {
  const std::lock_guard lock(captures().mutex);
  EmulatedGraph* of_mark = nullptr;
  for (const auto& [captured_stream, graph] : captures().of)
    if (graph->number == mark.capture) of_mark = graph;
  if (!of_mark) return cudaErrorCapturedEvent;
  EmulatedGraph*& graph = captures().of[stream];
  if (!graph) {
    graph = of_mark;
    graph->forked[stream] = {};
  }
  if (graph != of_mark) return cudaErrorStreamCaptureMerge;
  if (graph->origin != stream || mark.stream == stream) return cudaSuccess;
  EmulatedGraph::Fork& fork = graph->forked[mark.stream];
  fork.joined = std::max(fork.joined, mark.works);
  fork.waited = true;
  return cudaSuccess;
}

bool refused_in_capture() {
  if (!captured || capture_mode == cudaStreamCaptureModeRelaxed) return false;
  const std::lock_guard lock(captures().mutex);
  captured->failed = true;
  return true;
}
bool is_refused(cudaStream_t stream) {
  return with_capture(stream, [](EmulatedGraph& graph) { graph.failed = true; });
}

cudaError_t begin_capture(cudaStream_t stream) {
  const std::lock_guard lock(captures().mutex);
  EmulatedGraph*& graph = captures().of[stream];
  if (graph) return cudaErrorStreamCaptureUnsupported;
  captured = graph = new EmulatedGraph;
  graph->number = ++captures().begun;
  graph->origin = stream;
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t& graph) {
  const std::lock_guard lock(captures().mutex);
  graph = std::exchange(captured, nullptr);
  captures().of.erase(stream);
  bool joined = true;
  for (const auto& [forked_stream, fork] : graph->forked) {
    captures().of.erase(forked_stream);
    joined &= fork.waited && fork.joined >= fork.last;
  }
  if (joined && !graph->failed) return cudaSuccess;
  release(std::exchange(graph, nullptr));
  return joined ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
}

void swap_capture_mode(cudaStreamCaptureMode& mode) { std::swap(mode, capture_mode); }

std::shared_ptr<EmulatedGraph> shared(EmulatedGraph* graph) {
  return {(++graph->owners, graph), &release};
}
void release(EmulatedGraph* graph) {
  if (--graph->owners == 0) delete graph;
}

}  // namespace brim::cuda::emulation
