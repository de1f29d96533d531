// A class for each pixel: pictures with masks. Output (N, C, H, W), y i64 (N, H, W), where
// data::kIgnoredClass counts for nothing.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "core/check.h"
#include "train/task/imitation.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

class Segment final : public Task {
 public:
  explicit Segment(const Recipe& recipe) : smoothing_(recipe.label_smoothing) {}

  TaskData open(const Recipe& recipe, const DataRequest& request) const override {
    TaskData data = picture_data(data::open_segmentation(
        recipe.data, request.split, picture_options(recipe, request.training)));
    BRIM_CHECK(data.outputs > 1, FileError,
               "[data] {}: its masks have one class alone (255 is none), so there is nothing to "
               "learn; give each class a number of its own",
               recipe.data);
    return data;
  }
  Tensor loss(const Tensor& output, const data::Batch& batch, bool training) const override {
    // A batch of which nothing counts has no loss, where the mean would be NaN.
    const Tensor counts = ne(batch.y, static_cast<double>(data::kIgnoredClass)).to(output.dtype());
    return cross_entropy(output, batch.y,
                         {.ignore_index = data::kIgnoredClass,
                          .label_smoothing = training ? smoothing_ : 0,
                          .reduction = Reduction::sum}) /
           clamp(sum(counts), 1);
  }
  Tensor imitation_loss(const Tensor& output, const Tensor& teacher,
                        double temperature) const override {
    return softened_divergence(output, teacher, temperature);
  }
  std::vector<std::string> metrics() const override { return {"mean-iou", "pixel-accuracy"}; }

 private:
  const double smoothing_;
};

const bool registered_segment = register_task(
    "segment", [](const Recipe& recipe) { return std::make_unique<Segment>(recipe); });

}  // namespace
}  // namespace brim::train
