// CUDA graphs of work that is queued again and again: a whole training step in one launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include <brim/core/stream.h>

namespace brim::cuda {

/// The graphs of one plan. Work whose signature (addresses and numbers) was met before is replayed
/// from its graph; new work is captured. Work whose signature never comes back, such as a step with
/// dropout, whose keys change, is queued launch by launch.
class Graphs {
 public:
  Graphs() = default;
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  /// Queues the work on `stream`: one graph, or what `queue_work` queues.
  void run(Stream stream, std::span<const uint64_t> signature,
           const std::function<void()>& queue_work);

  int64_t replayed() const { return replayed_; }  ///< times that a graph was launched

 private:
  struct Entry {
    Stream stream;
    std::vector<uint64_t> signature;
    cudaGraphExec_t exec = nullptr;
  };
  /// A captured graph, or null with a warning where the work cannot be captured.
  cudaGraph_t capture(Stream stream, const std::function<void()>& queue_work);

  std::list<Entry> entries_;  // the one used last in front
  int64_t replayed_ = 0;
  int calls_ = 0;
  int misses_ = 0;  // since a signature came back
  bool impossible_ = false;
};

}  // namespace brim::cuda
