// Numbers that change from one replay of a graph to the next: where kernels find them, and how they
// get there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <brim/core/stream.h>

#include "core/runtime_graphs.h"

namespace brim::cuda {

/// While it lives, arguments that this thread's kernels are given are looked for among the
/// parameters of `work`, whose copies on the device begin at `block`.
class GraphParameterScope {
 public:
  GraphParameterScope(const RepeatedWork& work, uint64_t* block);
  ~GraphParameterScope();
  GraphParameterScope(const GraphParameterScope&) = delete;
  GraphParameterScope& operator=(const GraphParameterScope&) = delete;

  void begin_step(int step) { step_ = static_cast<size_t>(step); }
  /// The op of a number that no kernel asked for, so that it would be a constant of the graph; null
  /// if there is none.
  const char* unread() const;

  const void* find(const void* argument, size_t bytes);

 private:
  const RepeatedWork& work_;
  uint64_t* block_;
  size_t step_ = 0, words_ = 0;  // of one step
  std::vector<bool> read_;
};

/// Where on the device kernels find the argument while a graph is captured; null where it is a
/// constant of the launch.
const void* place_of(const void* argument, size_t bytes);

/// Queues that the words are written to the device's memory. They may change once it returns.
void write_words(Stream stream, uint64_t* at, std::span<const uint64_t> words);

}  // namespace brim::cuda
