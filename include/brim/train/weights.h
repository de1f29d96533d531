// A trained network as one safetensors file that knows which network it is: the recipe and the
// class names are in its metadata.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/io/safetensors.h>
#include <brim/nn/module.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// What a weights file says about itself. Files of other tools say nothing.
struct WeightsInfo {
  std::optional<Recipe> recipe;
  std::vector<std::string> classes;
};

/// Writes the network's state, atomically. Throws FileError.
void save_weights(const std::string& path, const nn::Module& model, const Recipe& recipe,
                  const std::vector<std::string>& classes);

/// Throws FileError for metadata that is damaged.
WeightsInfo read_weights_info(const io::SafeTensors& file, const std::string& path);

/// Whether two lists of class names are the same as files keep them: bytes that are no UTF-8 are
/// replaced there.
bool same_classes(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Copies the file's tensors into the network. Throws FileError naming the file and what is
/// missing, unexpected or of another shape.
void load_weights(const io::SafeTensors& file, const std::string& path, nn::Module& model);

}  // namespace brim::train
