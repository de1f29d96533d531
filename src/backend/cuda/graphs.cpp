// See graphs.h. CUDA C++ Programming Guide, section "CUDA Graphs" (stream capture).
#include "backend/cuda/graphs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "backend/cuda/runtime.h"

namespace brim::cuda {
namespace {

constexpr int kWarmUps = 2;        // first calls: libraries and scratch get their memory
constexpr size_t kMostGraphs = 8;  // as many as the loader has slots
constexpr int kMostMisses = 16;    // in a row; then signatures do not come back

}  // namespace

Graphs::~Graphs() {
  for (const Entry& e : entries_) (void)cudaGraphExecDestroy(e.exec);
}

cudaGraph_t Graphs::capture(Stream stream, const std::function<void()>& queue_work) {
  BRIM_CUDA(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    queue_work();
  } catch (const std::exception& error) {
    (void)cudaStreamEndCapture(native(stream), &graph);
    (void)cudaGetLastError();
    if (graph) (void)cudaGraphDestroy(graph);
    fmt::print(stderr,
               "brim: warning: [cuda] a step is not captured as a graph: {}; its launches are "
               "queued one by one\n",
               error.what());
    impossible_ = true;
    return nullptr;
  }
  const cudaError_t ended = cudaStreamEndCapture(native(stream), &graph);
  if (ended == cudaSuccess) return graph;
  (void)cudaGetLastError();
  fmt::print(stderr,
             "brim: warning: [cuda] a step is not captured as a graph: {}; its launches are queued "
             "one by one\n",
             cudaGetErrorString(ended));
  impossible_ = true;
  return nullptr;
}

void Graphs::run(Stream stream, std::span<const uint64_t> signature,
                 const std::function<void()>& queue_work) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.stream == stream && std::ranges::equal(e.signature, signature);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    misses_ = 0;
  } else {
    if (++calls_ <= kWarmUps || impossible_ || ++misses_ > kMostMisses) return queue_work();
    const DeviceGuard guard(stream.device.index);
    const cudaGraph_t graph = capture(stream, queue_work);
    if (!graph) return queue_work();
    if (entries_.size() == kMostGraphs) {
      (void)cudaGraphExecDestroy(entries_.back().exec);
      entries_.pop_back();
    }
    cudaGraphExec_t exec = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
    entries_.push_front({stream, {signature.begin(), signature.end()}, exec});
  }
  const DeviceGuard guard(stream.device.index);
  BRIM_CUDA(cudaGraphLaunch(entries_.front().exec, native(stream)));
  ++replayed_;
}

}  // namespace brim::cuda
