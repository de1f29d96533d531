// What a fake of one of NVIDIA's libraries (tests/fakes) is told when the emulation
// opens it.
#pragma once

#include <cstddef>
#include <functional>

namespace brim::cuda::emulation {

struct Machine {
  /// Queues work as a kernel: it is done now, or when a captured graph is launched.
  void (*submit)(std::function<void()> work);
  /// Lets milliseconds pass, as events see them.
  void (*spend)(double milliseconds);
  bool (*is_captured)();
  /// All of these bytes are memory of a device.
  bool (*is_memory)(const void* data, size_t bytes);
};

}  // namespace brim::cuda::emulation

/// Every fake has it; what does not is no fake, and cannot work here.
extern "C" void brim_fake_attach(const brim::cuda::emulation::Machine* machine);
