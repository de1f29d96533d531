// What a trained network says of one input: a picture, the rows of a table, the begin of a text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <brim/train/recipe.h>

#include "command/trained_network.h"

namespace brim::command {

struct PredictOptions {
  std::string weights, recipe, device = "auto", out, json;
  std::vector<std::string> inputs;
  int top = 1;
  int threads = 0;
  int64_t length = 200;
  double temperature = 0.8;
  uint64_t seed = 0;
};

/// The answer to one input: lines for people, and the same for programs.
struct Prediction {
  std::vector<std::string> lines;
  std::vector<nlohmann::ordered_json> json;
};

/// Gets a text that the network writes piece by piece, while it is written; false ends it.
using ShowText = std::function<bool(const std::string& piece)>;

class Predictor {
 public:
  virtual ~Predictor() = default;
  /// Throws FileError for what cannot be read, ValueError where the network puts out no numbers.
  virtual Prediction predict(const std::string& input, const ShowText& show) = 0;
};

/// Throws ValueError for a task that cannot be asked.
void check_can_be_asked(const std::string& path, const train::Recipe& recipe);

/// What the recipe's task asks of the network. Both are kept by reference. Throws ValueError for
/// options that the task has not got or needs.
std::unique_ptr<Predictor> make_predictor(const TrainedNetwork& network,
                                          const PredictOptions& options);

}  // namespace brim::command
