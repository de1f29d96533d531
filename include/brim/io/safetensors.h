// The safetensors format (huggingface/safetensors, README "Format"): 8 bytes of header length, a
// JSON header, the tensors' bytes. The reader trusts nothing: every length is checked against the
// file before memory is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::io {

using TensorMap = std::map<std::string, Tensor>;      ///< Tensors of a file, by name.
using Metadata = std::map<std::string, std::string>;  ///< Texts of a file, by name.

/// What the header says about one tensor.
struct TensorInfo {
  std::string dtype_name;      ///< as in the file: "F32", "BF16", "U16", ...
  std::optional<DType> dtype;  ///< empty for types of the format that brim has not got
  Shape shape;                 ///< its sizes
  uint64_t offset = 0;         ///< of the first byte, from the start of the file
  uint64_t bytes = 0;          ///< that it takes in the file
};

/// An open file whose tensors are read one by one when asked for, or several files with their index
/// (Hugging Face's layout). Thread-safe once open.
class SafeTensors {
 public:
  /// Reads and checks the header. Where there is no `path`, but an index of that name and
  /// ".index.json", or `path` is one, its tensors are those of the files that it lists. Throws
  /// FileError that names `path` and what was expected.
  explicit SafeTensors(const std::string& path);
  /// The same for a file in memory, which must outlive this object; `name` is for messages.
  SafeTensors(std::span<const uint8_t> bytes, const std::string& name);
  ~SafeTensors();
  ///@{
  /// Moves; what is left behind is closed.
  SafeTensors(SafeTensors&&) noexcept;
  SafeTensors& operator=(SafeTensors&&) noexcept;
  ///@}

  /// All tensors in the order of their bytes, file by file.
  const std::vector<std::string>& names() const;
  bool contains(const std::string& name) const;  ///< whether the file has that tensor
  /// Throws FileError when there is no such tensor.
  const TensorInfo& info(const std::string& name) const;
  const Metadata& metadata() const;  ///< of the first file

  /// One tensor. Throws FileError for a missing name, a dtype that brim has not got, damage.
  Tensor load(const std::string& name, Device device = {}) const;
  /// All of them. Throws as load() does.
  TensorMap load_all(Device device = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All tensors of a file. Throws FileError.
TensorMap load_safetensors(const std::string& path, Device device = {});

/// Writes `tensors` (any device and layout; stored row-major) atomically: a reader sees the old
/// file or the whole new one. Equal input gives equal bytes. Throws FileError.
void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const Metadata& metadata = {});

}  // namespace brim::io
