// A trained network as one safetensors file that knows which network it is: the recipe and the
// class names are in its metadata. Files of PyTorch are read as well; they do not know.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <brim/io/pth.h>
#include <brim/io/safetensors.h>
#include <brim/nn/module.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// Whether the name of `path` ends in .pth or .pt, PyTorch's extensions.
bool is_pth(const std::string& path);

/// An open file of weights: PyTorch's if is_pth(path), else safetensors. Weights that it holds
/// without their columns of zeros (save_sparse_weights()) are seen as dense ones.
class WeightsFile {
 public:
  /// Throws FileError.
  explicit WeightsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const;
  /// Throws FileError when there is no such tensor.
  const io::TensorInfo& info(const std::string& name) const;
  io::TensorMap load_all(Device device = {}) const;
  Tensor load(const std::string& name) const;
  /// Always empty for PyTorch's files.
  io::Metadata metadata() const;
  /// Whether the file holds it without its columns of zeros.
  bool is_sparse(const std::string& name) const { return sparse_.contains(name); }

 private:
  void find_sparse();

  std::string path_;
  std::variant<io::SafeTensors, io::Pth> file_;
  std::vector<std::string> names_;                // where some are sparse
  std::map<std::string, io::TensorInfo> sparse_;  // as dense ones
  std::map<std::string, int64_t> vectors_;
};

/// What a weights file says about itself. Files of other tools say nothing.
struct WeightsInfo {
  std::optional<Recipe> recipe;
  std::vector<std::string> classes;  ///< names of the outputs
  std::vector<std::string> columns;  ///< of a table, those of x
  std::vector<std::string> targets;  ///< and those of y
  Shape input;                       ///< of one x; of rank 0: not said
};

/// Writes the network's state, atomically. Throws FileError.
void save_weights(const std::string& path, const nn::Module& model, const WeightsInfo& info);

/// Writes tensors with those weights (f32, of 2 or 4 axes) without their columns of zeros that take
/// fewer bytes so: "NAME.values" (kept, vector), "NAME.columns" and "NAME.starts", as SparseWeight
/// has them, and "brim.sparse" in the metadata. Throws FileError, ValueError for a vector that
/// SparseWeight::encode() refuses.
void save_sparse_weights(const std::string& path, const io::TensorMap& tensors, int64_t vector,
                         io::Metadata metadata = {});

/// Throws FileError for metadata that is damaged.
WeightsInfo read_weights_info(const WeightsFile& file);

/// Whether two lists of class names are the same as files keep them: bytes that are no UTF-8 are
/// replaced there.
bool same_classes(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Copies the file's tensors into the network. Throws FileError naming the file and what is
/// missing, unexpected or of another shape.
void load_weights(const WeightsFile& file, nn::Module& model);

}  // namespace brim::train
