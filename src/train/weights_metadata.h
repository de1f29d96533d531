// What brim writes into the metadata of its weights files.
#pragma once

#include <string>
#include <vector>

#include <brim/io/safetensors.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// The recipe and the names of the classes, and "format": "pt", which other readers look for.
io::Metadata weights_metadata(const Recipe& recipe, const std::vector<std::string>& classes);

}  // namespace brim::train
