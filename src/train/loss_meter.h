// The loss of training, summed on the device.
#pragma once

#include <brim/core/tensor.h>

#include "train/run_state.h"

namespace brim::train {

/// The summed loss of the steps since it began anew. The device's part of a step is add(), which a
/// compiled step holds; the host's is count().
class LossMeter {
 public:
  explicit LossMeter(Device device);
  /// `loss`: a scalar. Queues one addition; reads nothing.
  void add(const Tensor& loss);
  /// So many steps were queued.
  void count(int64_t steps) { steps_ += steps; }
  /// Reads the sum, waiting for the device.
  LossSum read() const;
  /// Begins anew, or goes on from what was read before: the same sums, bit for bit.
  void reset(const LossSum& from = {});

 private:
  Tensor sum_;
  int64_t steps_ = 0;
};

}  // namespace brim::train
