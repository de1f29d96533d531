#include "train/task/imitation.h"

#include <brim/ops/binary.h>
#include <brim/ops/loss.h>
#include <brim/ops/softmax.h>
#include <brim/train/task.h>

namespace brim::train {

Tensor softened_divergence(const Tensor& logits, const Tensor& teacher, double temperature) {
  const Tensor softened = teacher.to(DType::f32) / temperature;
  const Tensor wanted = softmax(softened, 1);
  const Tensor difference = cross_entropy(logits.to(DType::f32) / temperature, wanted) -
                            cross_entropy(softened, wanted);  // without the teacher's own entropy
  return difference * (temperature * temperature);
}

Tensor Task::imitation_loss(const Tensor& output, const Tensor& teacher, double) const {
  return mse_loss(output.to(DType::f32), teacher.to(DType::f32));
}

}  // namespace brim::train
