// What a search for smaller networks has measured, kept so that it can go on.
#pragma once

#include <brim/compress/shrink.h>
#include <brim/train/recipe.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace brim::command {

using Json = nlohmann::ordered_json;

/// The network without some of its channels, before any training.
struct ShrunkWidth {
  compress::LayerForms groups;     ///< of channels: what each is without
  train::ChannelsRecipe channels;  ///< that are left; of the dense network none are named
  double seconds = 0;              ///< of a forward pass
  double distance = 0;             ///< of its outputs from the dense network's
  int64_t bytes = 0;               ///< of its file
  std::string hash;                ///< of its file
  std::vector<compress::LayerCosts> layers;
  double fastest_s = 0;  ///< of a pass with fastest_forms(); 0: not measured yet

  /// Of each layer, with all of its weights.
  compress::LayerForms fastest_forms() const;
  Json to_json() const;
};

/// A network of the frontier.
struct ShrunkPoint {
  size_t width = 0;  ///< of ShrinkState::widths
  compress::LayerForms forms;
  double predicted_s = 0;        ///< of a forward pass
  double seconds = 0;            ///< as measured
  std::optional<double> joules;  ///< of a forward pass, where the machine counts them
  int64_t bytes = 0;             ///< of its file
  std::string hash;              ///< of its file
  Json evaluation;               ///< null: there is no test split
  double metric = 0;             ///< of the evaluation, as a fraction

  Json to_json() const;
};

struct ShrinkState {
  Json asked;                                   ///< what the measurements depend on
  Json target;                                  ///< what the points do besides
  std::vector<compress::LayerCosts> groups;     ///< of channels
  std::vector<ShrunkWidth> widths;              ///< the dense network first
  std::vector<ShrunkPoint> points;              ///< the dense network first
  std::optional<compress::LayerForms> current;  ///< those being trained
  size_t current_width = 0;
  int64_t steps = 0;  ///< of the trainings that have ended

  /// All but the dense network: they are made anew.
  void drop_points();
  Json to_json() const;
  /// Throws FileError where the points are not of the layers.
  void check(const std::string& folder) const;
  /// Replaces the file of a folder. Throws FileError.
  void save(const std::string& folder) const;
  static std::string path(const std::string& folder);
  /// Throws FileError where the file is damaged or of another version's format, or the search was
  /// asked for something else.
  static ShrinkState load(const std::string& folder, const Json& asked);
};

Json to_json(const compress::LayerForms& forms);

/// Which keys of `a` have other values in `b`: "data, samples", or "".
std::string differences(const Json& a, const Json& b);

}  // namespace brim::command
