// The loss of training, summed on the device.
#pragma once

#include <vector>

#include <brim/core/tensor.h>

#include "train/run_state.h"

namespace brim::train {

/// The summed loss of the steps since it began anew. The device's part of a step is add(), which a
/// compiled step holds; the host's is count().
class LossMeter {
 public:
  /// `parts`: that a loss consists of.
  explicit LossMeter(Device device, int64_t parts = 1);
  /// `loss`: a scalar. `part_losses`: its parts, or undefined. Queues additions; reads nothing.
  void add(const Tensor& loss, const Tensor& part_losses = {});
  /// So many steps were queued.
  void count(int64_t steps) { steps_ += steps; }
  /// Reads the sum, waiting for the device.
  LossSum read() const;
  /// After how many steps each part was not finite, if parts were given. Waits for the device.
  std::vector<int64_t> finite_steps() const;
  /// Begins anew, or goes on from what was read before: the same sums, bit for bit.
  void reset(const LossSum& from = {});

 private:
  Tensor sum_;
  Tensor finite_, finite_steps_;  // by part: 1 as long as all were, and how many steps that was
  bool has_parts_ = false;        // add() was given some
  int64_t steps_ = 0;
};

}  // namespace brim::train
