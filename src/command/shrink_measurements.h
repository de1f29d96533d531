// What a search for a smaller network knows before it makes one: the dense network, networks
// without some of its channels, and what the layers of all of them cost in each form.
#pragma once

#include <brim/compress/shrink.h>
#include <brim/train/task.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command/compression_run.h"
#include "command/shrink_folder.h"
#include "command/shrink_request.h"
#include "command/shrink_state.h"

namespace brim::command {

class ShrinkMeasurements : public CompressionRun {
 protected:
  /// Both are kept by reference.
  ShrinkMeasurements(const ShrinkArguments& o, const ShrinkTarget& target, Device device);

  /// Whatever an earlier search has not measured, until a stop. Throws FileError, ValueError.
  void measure();
  Json target_json() const;
  const std::vector<compress::LayerCosts>& layers_of(size_t width) const {
    return state_.widths[width].layers;
  }
  /// Of a training of that network.
  train::Recipe recipe_of_width(size_t width) const;
  std::string pattern_of_vectors() const;
  /// Of files with the network of a recipe.
  train::WeightsInfo weights_info(const train::Recipe& recipe) const;
  /// The network as it computes now, which `path` holds.
  ShrunkPoint point_of(size_t width, const compress::LayerForms& forms,
                       const std::optional<Evaluated>& found, const std::string& path);

  const ShrinkArguments& arguments_;
  const ShrinkTarget& target_;
  const ShrinkPatterns patterns_;
  const ShrinkFolder folder_;
  std::string metric_;  // that --accuracy is of; "": there is none
  std::vector<Tensor> inputs_;
  Tensor timed_;
  ShrinkState state_;

 private:
  void load_state();
  void measure_dense();
  void measure_widths();
  void make_widths();
  /// Of the network that there is now.
  void measure_layers(ShrunkWidth& width, const std::vector<compress::LayerCosts>& known);
  /// The whole of it, in ShrunkWidth::fastest_forms().
  void measure_fastest(ShrunkWidth& width);
  std::optional<double> joules_of_forward();
};

}  // namespace brim::command
