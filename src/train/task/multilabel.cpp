// Any number of labels for each sample: pictures with a table. Output (N, T), y f32 (N, T).
#include <brim/ops/loss.h>

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
  std::vector<std::string> metrics() const override {
    return {"f1", "average-precision", "label-accuracy"};
  }
};

const bool registered_multilabel =
    register_task("multilabel", [](const Recipe&) { return std::make_unique<MultiLabel>(); });

}  // namespace
}  // namespace brim::train
