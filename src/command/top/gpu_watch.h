// GPUs read by threads of their own: a driver that hangs stops neither the view nor the other
// cards.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <brim/core/device.h>

#include "command/top/gpu.h"

namespace brim::top {

class GpuWatch {
 public:
  /// `find`: the devices, called by a thread, because to ask for them may hang as well.
  GpuWatch(std::function<std::vector<Device>()> find, double period);
  /// Waits for no driver: a thread that hangs is left behind.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// The newest readings. A card without one for more than 3 s does not answer.
  std::vector<Gpu> read() const;
  /// Until each card has been read once, for at most `seconds`.
  void wait_for_first(double seconds) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // also the threads'
};

}  // namespace brim::top
