// What comes next in a text: windows of tokens. Output (N, L, V), y i64 (N, L).
#include <brim/data/tables.h>
#include <brim/ops/loss.h>

#include "train/task/imitation.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

class Language final : public Task {
 public:
  explicit Language(const Recipe& recipe)
      : smoothing_(recipe.label_smoothing),
        bytes_(recipe.input.tokens == "u8" && recipe.input.vocabulary <= 256) {}

  TaskData open(const Recipe& recipe, const DataRequest& request) const override {
    const std::string path = split_file(recipe.data, request.split, {".txt", ".bin", ".tokens"});
    return {.samples = data::open_tokens(path, {.window = recipe.input.window,
                                                .dtype = token_dtype(recipe),
                                                .vocabulary = recipe.input.vocabulary}),
            .outputs = recipe.input.vocabulary};
  }
  Tensor loss(const Tensor& output, const data::Batch& batch, bool training) const override {
    return cross_entropy(output.flatten(0, 1), batch.y.flatten(),
                         {.label_smoothing = training ? smoothing_ : 0});
  }
  Tensor imitation_loss(const Tensor& output, const Tensor& teacher,
                        double temperature) const override {
    return softened_divergence(output.flatten(0, 1), teacher.flatten(0, 1), temperature);
  }
  std::vector<std::string> metrics() const override {
    if (!bytes_) return {"perplexity", "token-accuracy"};
    return {"bits-per-byte", "perplexity", "token-accuracy"};
  }
  bool in_order() const override { return true; }

 private:
  static DType token_dtype(const Recipe& recipe) { return parse_dtype(recipe.input.tokens); }
  const double smoothing_;
  const bool bytes_;
};

const bool registered_language = register_task(
    "language", [](const Recipe& recipe) { return std::make_unique<Language>(recipe); });

}  // namespace
}  // namespace brim::train
