// The stream checker over CUDA's devices, with BRIM_CUDA_CHECK=1: a missing wait between streams is
// an error when the work is queued, whatever the timing.
#pragma once

#include <span>
#include <vector>

#include <brim/core/stream.h>

#include "backend/stream_checker.h"
#include "backend/touches.h"

namespace brim::cuda {

/// Null while nobody checks.
backend::StreamChecker* checker();
/// The checker's number of a stream.
int checked_number(Stream stream);

/// Work is about to be queued; in a thread that captures a step it becomes part of the graph.
void check_work(const Stream& stream, const char* name, std::span<const backend::Touch> touches);

/// While it lives, what this thread's work touches is collected, as it goes into a graph.
class TouchCollection {
 public:
  TouchCollection();
  ~TouchCollection();
  TouchCollection(const TouchCollection&) = delete;
  TouchCollection& operator=(const TouchCollection&) = delete;
  std::vector<backend::Touch> touches;

 private:
  TouchCollection* before_;
};

}  // namespace brim::cuda
