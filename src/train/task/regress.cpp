// Numbers for each sample: rows of a table, or pictures with one. Output (N, T), y f32 (N, T), or
// (N) for one column.
#include <brim/ops/loss.h>

#include "core/check.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

class Regress final : public Task {
 public:
  TaskData open(const Recipe& recipe, const DataRequest& request) const override {
    if (has_split_file(recipe.data, {".csv"})) return open_table(recipe, request, false);
    return picture_data(data::open_labelled(recipe.data, request.split, data::Targets::regression,
                                            picture_options(recipe, request.training)));
  }
  Tensor loss(const Tensor& output, const data::Batch& batch, bool) const override {
    BRIM_CHECK(output.numel() == batch.y.numel(), ShapeError,
               "[regress] the network puts out {}, and y is {}; it must put out a number for each "
               "target",
               output.shape().str(), batch.y.shape().str());
    return mse_loss(output.reshape(batch.y.shape()), batch.y);
  }
  std::vector<std::string> metrics() const override { return {"rmse", "mae", "r2"}; }
};

const bool registered_regress =
    register_task("regress", [](const Recipe&) { return std::make_unique<Regress>(); });

}  // namespace
}  // namespace brim::train
