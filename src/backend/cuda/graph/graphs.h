// CUDA graphs of work that is queued again and again: a whole training step, or several of them, in
// one launch.
//
// Addresses decide which graph is replayed; numbers that change from step to step (learning rate,
// bias corrections, keys of random numbers) do not. Each graph owns a small block of device memory,
// its kernels read such numbers there (graph_parameter.cuh), and where they differ from those of
// the last time, one small kernel queued before the graph writes them, as its arguments. The other
// way, cudaGraphExecKernelNodeSetParams, would cost the host a call, and up to 4 KiB of arguments,
// for each kernel that reads one and for each step of a graph. Neither waits for anything.
//
// Input slots are not copied into one: as many graphs as there are slots (two in training) cost
// memory, a copy would cost every step a launch.
//
// A graph holds addresses of memory that others own. Whatever may be freed while the graph is kept
// (inputs, results, scratch) has its address in the signature, so a graph is only replayed on
// memory that the caller owns at that time; all else the caller keeps alive as long as the graph.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include <brim/core/storage.h>

#include "backend/touches.h"
#include "core/runtime_graphs.h"

namespace brim::cuda {

/// The graphs of one plan. Work is queued launch by launch until everything it needs is loaded and
/// allocated, and until its signature comes back; then it is captured, and replayed from there on.
/// One thread at a time.
class Graphs {
 public:
  Graphs() = default;
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  /// Queues the work on `stream`: one graph, or what work.queue queues.
  void run(Stream stream, const RepeatedWork& work);

  RepeatedStats stats() const;

 private:
  struct Entry {
    Stream stream;
    int steps;
    std::vector<uint64_t> signature;
    Ref<Storage> parameters;        // on the device; null where there are none
    std::vector<uint64_t> written;  // what stands there
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;  // made from it
    uint64_t changes = 0;            // activity_changes() when it was made
    size_t nodes = 0;
    std::vector<backend::Touch> touches;  // for the stream checker
  };
  /// The signature, and the values too where kernels do not read them from a graph's parameters.
  std::vector<uint64_t> signature_of(const RepeatedWork& work) const;
  /// Whether the signature came by before, so that it may come again.
  bool comes_back(Stream stream, int steps, const std::vector<uint64_t>& signature);
  /// Makes the graph and puts it in front of the others. False where the work cannot be one.
  bool capture(Stream stream, const RepeatedWork& work, std::vector<uint64_t> signature);
  /// What the stream captured, or null, once with a warning.
  cudaGraph_t captured(Stream stream, const std::function<void()>& queue);
  /// Notes and says why there is no graph: that may pass, so after a while it is tried again.
  void put_off(const std::string& why);
  void renew(Entry& entry, const RepeatedWork& work);
  /// Makes the graph ready to be launched, anew where what is recorded of it has changed.
  static cudaError_t make_ready(Entry& entry);
  static void destroy(const Entry& entry);

  std::list<Entry> entries_;    // the one used last in front
  std::vector<uint64_t> seen_;  // hashes of signatures, the newest last
  RepeatedStats stats_;         // but for why_not
  std::string failure_;         // why there is no graph now
  std::string unread_;          // the number that is no kernel's to read
  bool values_sign_ = false;    // some parameters are no kernel's to read
  int failures_ = 0;            // since the last graph that was made
  int64_t pause_ = 0;           // calls until the next try
};

}  // namespace brim::cuda
