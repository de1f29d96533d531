// A trained network as one safetensors file that knows which network it is: the recipe and the
// class names are in its metadata. Files of PyTorch are read as well; they do not know.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <brim/compress/quantize.h>
#include <brim/io/pth.h>
#include <brim/io/safetensors.h>
#include <brim/nn/module.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// Whether the name of `path` ends in .pth or .pt, PyTorch's extensions.
bool is_pth(const std::string& path);

/// An open file of weights: PyTorch's if is_pth(path), else safetensors. Weights that it holds
/// without their columns of zeros (save_sparse_weights()), or in integers (save_int8_weights()),
/// are seen as dense ones.
class WeightsFile {
 public:
  /// Throws FileError.
  explicit WeightsFile(const std::string& path);

  const std::string& path() const { return path_; }  ///< as given
  const std::vector<std::string>& names() const;     ///< all tensors of its state
  /// Throws FileError when there is no such tensor.
  const io::TensorInfo& info(const std::string& name) const;
  /// All of them, encoded ones as dense. Throws FileError where it is damaged.
  io::TensorMap load_all(Device device = {}) const;
  /// One of them, on the host. Throws FileError for a missing name, a dtype that brim has not got,
  /// damage.
  Tensor load(const std::string& name) const;
  /// Always empty for PyTorch's files.
  io::Metadata metadata() const;
  /// Whether the file holds it in another form than as one tensor.
  bool is_encoded(const std::string& name) const { return encoded_.contains(name); }
  size_t int8_count() const;  ///< of those that it holds in integers
  /// These. Throws FileError where it is damaged.
  compress::Int8Layers int8_layers() const;

  /// A weight that is seen as dense.
  struct Encoded {
    io::TensorInfo info;                                 ///< of the dense weight
    std::vector<std::string> parts;                      ///< the tensors in the file
    std::function<Tensor(const io::SafeTensors&)> load;  ///< makes the dense weight
    std::function<compress::Int8Layer(const io::SafeTensors&)>
        int8;  ///< null unless it is in integers
  };

 private:
  std::string path_;
  std::variant<io::SafeTensors, io::Pth> file_;
  std::vector<std::string> names_;  // where some are encoded
  std::map<std::string, Encoded> encoded_;
};

/// What a weights file says about itself. Files of other tools say nothing.
struct WeightsInfo {
  std::optional<Recipe> recipe = {};      ///< what it was trained by
  std::vector<std::string> classes = {};  ///< names of the outputs
  std::vector<std::string> columns = {};  ///< of a table, those of x
  std::vector<std::string> targets = {};  ///< and those of y
  Shape input = {};                       ///< of one x; of rank 0: not said
};

/// Writes the network's state, atomically. Throws FileError.
void save_weights(const std::string& path, const nn::Module& model, const WeightsInfo& info);

/// Writes tensors with those weights (f32, of 2 or 4 axes) without their columns of zeros that take
/// fewer bytes so: "NAME.values" (kept, vector), "NAME.columns", "NAME.starts" and "NAME.outputs",
/// as SparseWeight has them, and "brim.sparse" in the metadata. Throws FileError, ValueError for a
/// vector that SparseWeight::encode() refuses.
void save_sparse_weights(const std::string& path, const io::TensorMap& tensors, int64_t vector,
                         io::Metadata metadata = {});

/// Writes the network's state with the weights of `layers` in integers: "NAME.values",
/// "NAME.scales" and "NAME.correction", as Int8Weight has them, or also "NAME.columns",
/// "NAME.starts" and "NAME.outputs", as SparseInt8Weight has them; and "brim.int8" in the metadata.
void save_int8_weights(const std::string& path, const nn::Module& model,
                       const compress::Int8Layers& layers, const WeightsInfo& info);

/// Both at once: the weights of `layers` in integers, others without their columns of zeros.
void save_compressed_weights(const std::string& path, const nn::Module& model,
                             const compress::Int8Layers& layers, int64_t vector,
                             const WeightsInfo& info);

/// Throws FileError for metadata that is damaged.
WeightsInfo read_weights_info(const WeightsFile& file);

/// Whether two lists of class names are the same as files keep them: bytes that are no UTF-8 are
/// replaced there.
bool same_classes(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Copies the file's tensors into the network. Throws FileError naming the file and what is
/// missing, unexpected or of another shape.
void load_weights(const WeightsFile& file, nn::Module& model);

/// Throws FileError, naming the tensor and `path`, where one of the network's holds a NaN or an
/// infinity.
void check_finite(const nn::Module& model, const std::string& path);

}  // namespace brim::train
