// cuDNN on a device, and the choice between it and brim's own kernel where its results are compared
// with those.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/dtype.h>

#include "backend/cuda/libraries/cudnn_library.h"
#include "backend/cuda/libraries/measure.h"
#include "backend/cuda/libraries/work.h"
#include "backend/cuda/runtime/runtime.h"

namespace brim::cuda::dnn {

/// The library on one device. cuDNN's handle has one stream: one problem at a time is queued.
class Handle {
 public:
  /// Without cuDNN's handle, and with a warning, where the library cannot begin.
  explicit Handle(int device);
  bool has_begun() const { return handle_ != nullptr; }
  /// For what asks and queues nothing.
  cudnnHandle_t get() const { return handle_; }
  /// For a call that queues: on `stream`, or, while this thread captures it, in its graph. To be
  /// asked for each call, with the mutex held.
  cudnnHandle_t on(Stream stream);

  std::mutex mutex;
  ChoiceFile& choices;

 private:
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;  // that the handle queues on
};

/// nullptr where the library was not used yet and may not be begun now, and where it cannot begin.
/// Never destroyed: the driver may be gone before static objects are.
Handle* handle_of(int device, bool may_begin);

/// A result of an op, so that two ways to compute it can be compared.
struct Output {
  const void* data;
  int64_t count;
  DType dtype;
  bool like_next = false;  ///< of the next one's magnitude: both are measured by one scale
};

/// The number of the way of the library's that computes what `own` does, as far as samples of the
/// results show it, and is clearly the fastest (BRIM_CUDA_PREFER_CUDNN: the first of them), or was
/// so in an earlier run; -1: the own kernel is to compute. So it is where the results show nothing,
/// as the last one's elements are all equal: what is decided first stays, so that runs repeat each
/// other. Waits for the stream.
int best_of_library(ChoiceFile& choices, const std::string& problem,
                    std::span<const Output> outputs, std::span<const Candidate> library,
                    const Work& own, Stream stream);

/// Problems of one kind. Key: numbers that tell problems apart, the first of them the device's;
/// Operation: what cuDNN needs for one, with the `names()` of the ways that it has to compute it.
template <size_t kNumbers, class Operation>
class Problems {
 public:
  using Key = std::array<int64_t, kNumbers>;

  /// Queues the problem by cuDNN: describe(handle) makes an operation, queue(handle, context,
  /// operation, way, measured) queues it and says whether that is supported; `measured` results are
  /// thrown away. False, with nothing queued that matters, where brim's own kernel is to do it.
  template <class Describe, class Queue>
  bool run(const Context& context, const char* kind, const Key& key,
           std::span<const Output> outputs, const Describe& describe, const Queue& queue,
           const Work& own) {
    const bool captured = is_captured(context.stream);
    Handle* const handle = handle_of(context.device().index, !captured);
    const std::lock_guard lock(mutex_);
    Known* known = handle ? known_.find(key) : nullptr;
    if (!known && captured) {
      warn_of_capture();
      return false;
    }
    if (!handle) return false;
    const std::lock_guard one_at_a_time(handle->mutex);
    const DeviceGuard guard(context.device().index);
    const auto find = [&] {
      Operation operation = describe(handle->get());
      std::string problem = kind;
      // Devices of one kind share what the file has.
      for (const int64_t number : std::span(key).subspan(1)) problem += fmt::format(" {}", number);
      std::vector<Candidate> library;
      for (const std::string& name : operation.names())
        library.push_back({name, [&, way = library.size()](const Context& at) {
                             return queue(handle->on(at.stream), at, operation, way, true);
                           }});
      const int best =
          best_of_library(handle->choices, problem, outputs, library, own, context.stream);
      return Known{std::move(operation), best};
    };
    if (!known) known = &known_.add(key, found_or(Known(), "it", find));
    if (known->way < 0 || known->no_room.lasts()) return false;
    try {
      if (!queue(handle->on(context.stream), context, known->operation,
                 static_cast<size_t>(known->way), false)) {
        (void)cudaGetLastError();  // that the refusal may have left
        known->way = -1;
        return false;
      }
    } catch (const OutOfMemory& e) {
      known->no_room.begins("cuDNN", kind, e);
      return false;
    }
    note_queued(context.device().index);
    return true;
  }

 private:
  struct Known {
    Operation operation;
    int way = -1;
    NoRoom no_room;
  };
  std::mutex mutex_;
  ProblemCache<Key, Known> known_;
};

/// The one way of an operation of descriptors alone.
struct OneWay {
  static std::span<const std::string> names() {
    static const std::string name = "cudnn";
    return {&name, 1};
  }
};

}  // namespace brim::cuda::dnn
