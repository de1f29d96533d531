// Arrays of a safetensors file: what Source::open asks about them.
#pragma once

#include <string>

namespace brim::data {

/// The names of a split's arrays: "images" and "labels", or with "train_" or "test_" before them.
struct ArrayNames {
  std::string images, labels;
};
inline ArrayNames array_names(const std::string& prefix) {
  return {prefix + "images", prefix + "labels"};
}

/// What class names are kept under in the file's metadata: one a line.
inline constexpr const char* kArrayClasses = "classes";

/// True for a file that begins as safetensors do.
bool is_safetensors(const std::string& path);

}  // namespace brim::data
