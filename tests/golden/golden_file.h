// One file of tests/golden/data: its tensors and metadata.
#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include <brim/core/tensor.h>
#include <brim/io/safetensors.h>

namespace golden {

/// Path of data/<name>.safetensors in the source tree.
inline std::string path_of(const std::string& name) {
  const char* root = std::getenv("BRIM_SOURCE_DIR");
  return std::string(root ? root : ".") + "/tests/golden/data/" + name + ".safetensors";
}

struct File {
  explicit File(const std::string& file_name) : name(file_name) {
    const brim::io::SafeTensors file(path_of(file_name));
    tensors = file.load_all();
    metadata = file.metadata();
  }
  bool has(const std::string& key) const { return tensors.count(key) != 0; }
  const brim::Tensor& at(const std::string& key) const {
    const auto found = tensors.find(key);
    if (found == tensors.end()) throw std::out_of_range(name + " has no tensor " + key);
    return found->second;
  }

  std::string name;
  brim::io::TensorMap tensors;
  brim::io::Metadata metadata;
};

}  // namespace golden
