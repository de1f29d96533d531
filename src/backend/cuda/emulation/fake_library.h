// What a fake of one of NVIDIA's libraries (tests/fakes) is told when the emulation
// opens it.
#pragma once

#include <cstddef>
#include <functional>

#include <cuda_runtime_api.h>

namespace brim::cuda::emulation {

struct Machine {
  /// Queues work as a kernel (queues.h), or, if the stream is captured, as a node of the graph.
  void (*submit)(cudaStream_t stream, std::function<void()> work);
  /// Lets milliseconds pass on the stream, as events see them.
  void (*spend)(cudaStream_t stream, double milliseconds);
  bool (*is_captured)(cudaStream_t stream);
  /// Whether this thread captures a stream.
  bool (*is_capturing)();
  /// All of these bytes are memory of a device.
  bool (*is_memory)(const void* data, size_t bytes);
  void (*go_on)();  // see queues.h
  void (*pause)();
};

}  // namespace brim::cuda::emulation

/// Every fake has it; what does not is no fake, and cannot work here.
extern "C" void brim_fake_attach(const brim::cuda::emulation::Machine* machine);
