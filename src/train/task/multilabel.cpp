// Any number of labels for each sample: pictures with a table. Output (N, T), y f32 (N, T).
#include <brim/ops/binary.h>
#include <brim/ops/loss.h>
#include <brim/ops/unary.h>

#include "train/task/open.h"

namespace brim::train {
namespace {

class MultiLabel final : public Task {
 public:
  TaskData open(const Recipe& recipe, const DataRequest& request) const override {
    return picture_data(data::open_labelled(recipe.data, request.split, data::Targets::multi_label,
                                            picture_options(recipe, request.training)));
  }
  Tensor loss(const Tensor& output, const data::Batch& batch, bool) const override {
    return bce_with_logits(output, batch.y);
  }
  Tensor imitation_loss(const Tensor& output, const Tensor& teacher,
                        double temperature) const override {
    const Tensor softened = teacher.to(DType::f32) / temperature;
    const Tensor wanted = sigmoid(softened);
    const Tensor difference = bce_with_logits(output.to(DType::f32) / temperature, wanted) -
                              bce_with_logits(softened, wanted);
    return difference * (temperature * temperature);
  }
  std::vector<std::string> metrics() const override {
    return {"f1", "average-precision", "label-accuracy"};
  }
};

const bool registered_multilabel =
    register_task("multilabel", [](const Recipe&) { return std::make_unique<MultiLabel>(); });

}  // namespace
}  // namespace brim::train
