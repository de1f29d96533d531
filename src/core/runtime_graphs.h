// What a backend offers for work that is queued again and again: it may become a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <brim/core/stream.h>

namespace brim {

/// Work that is repeated, on one stream and others that it forks to and joins, such as the step of
/// a plan, or several steps of it.
struct RepeatedWork {
  /// An argument of a kernel that may differ each time: a key of random numbers, a learning rate.
  struct Parameter {
    const void* argument;  ///< where the kernel gets it from; the same each time
    size_t words;          ///< of 8 bytes
    const char* op;        ///< whose argument it is
  };

  /// What else may differ, addresses above all.
  std::span<const uint64_t> signature;
  std::span<const Parameter> parameters;
  /// The words of the parameters in their order, for each step: steps * all their words.
  std::span<const uint64_t> values;
  int steps = 1;
  /// Puts the values of a step (0, 1, ...) where its kernels get them from, and queues it; waits
  /// for nothing. False if it used memory that is not its own for good: it may not be repeated
  /// without being queued anew.
  std::function<bool(int step)> queue;
};

/// What became of repeated work.
struct RepeatedStats {
  int64_t graphs = 0;    ///< that are kept
  int64_t nodes = 0;     ///< kernels, copies and fills in one step of the one used last
  int64_t replayed = 0;  ///< times that a graph was launched
  int64_t renewed = 0;   ///< times that parameters were written for it before
  int64_t queued = 0;    ///< times that the work was queued launch by launch
  std::string why_not;   ///< empty, or what keeps it from being a graph
};

class GraphRuntime {
 public:
  virtual ~GraphRuntime() = default;

  /// Queues all steps of the work. Devices whose launches cost something take them in one, and a
  /// backend that has met the signature before need not have them queued again (CUDA replays a
  /// graph). The caller keeps `kept` for the backend from one time to the next.
  virtual void launch_as_one(Stream stream, const RepeatedWork& work, std::shared_ptr<void>& kept) {
    (void)stream, (void)kept;
    for (int step = 0; step < work.steps; ++step) (void)work.queue(step);
  }
  /// `kept`: of launch_as_one. All 0 where the backend keeps nothing.
  virtual RepeatedStats repeated(const std::shared_ptr<void>& kept) const {
    (void)kept;
    return {};
  }
};

}  // namespace brim
