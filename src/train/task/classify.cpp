// One class for each sample: labelled pictures, or rows of a table. Output (N, C), y i64 (N).
#include <brim/ops/loss.h>

#include <filesystem>
#include <utility>

#include "core/check.h"
#include "train/task/imitation.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

class Classify final : public Task {
 public:
  explicit Classify(const Recipe& recipe) : smoothing_(recipe.label_smoothing) {}

  TaskData open(const Recipe& recipe, const DataRequest& request) const override {
    if (has_split_file(recipe.data, {".csv"})) return open_table(recipe, request, true);
    std::error_code ignored;  // what cannot be looked at is refused below
    for (const auto& [inside, task] :
         {std::pair{"/labels.csv", "multilabel or regress"}, std::pair{"/masks", "segment"}})
      BRIM_CHECK(!std::filesystem::exists(recipe.data + inside, ignored), FileError,
                 "[data] {} holds {}, so it is data of the task {}; say so in the recipe (task = "
                 "...), or move that away",
                 recipe.data, inside + 1, task);
    const auto source = data::Source::open(recipe.data, request.split, request.progress);
    return {.pictures = source,
            .outputs = static_cast<int64_t>(source->classes().size()),
            .names = source->classes()};
  }
  Tensor loss(const Tensor& output, const data::Batch& batch, bool training) const override {
    return cross_entropy(output, batch.y, {.label_smoothing = training ? smoothing_ : 0});
  }
  Tensor imitation_loss(const Tensor& output, const Tensor& teacher,
                        double temperature) const override {
    return softened_divergence(output, teacher, temperature);
  }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  const double smoothing_;
};

const bool registered_classify = register_task(
    "classify", [](const Recipe& recipe) { return std::make_unique<Classify>(recipe); });

}  // namespace
}  // namespace brim::train
