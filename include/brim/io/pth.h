// PyTorch's .pth (or .pt) files of weights: a zip of stored entries, one of them a pickle that
// names tensors and the storages they view (torch/serialization.py; PKWARE APPNOTE; pickletools).
// The reader knows a short list of what a state dict is made of, executes nothing, and checks every
// declared size against the file before memory is asked for.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/io/safetensors.h>

namespace brim::io {

/// An open state dict whose tensors are read when asked for. Thread-safe once open.
///
/// The file holds what torch.save(model.state_dict(), path) of PyTorch 1.6 or newer writes: a dict
/// of tensors, or a dict without tensors that holds exactly one such dict, as {"epoch": 3,
/// "state_dict": {...}}, which is then taken.
class Pth {
 public:
  /// Reads and checks directory and pickle. Throws FileError that names `path` and what was
  /// expected.
  explicit Pth(const std::string& path);
  /// The same for a file in memory, which must outlive this object; `name` is for messages.
  Pth(std::span<const uint8_t> bytes, const std::string& name);
  ~Pth();
  ///@{
  /// Moves; what is left behind is closed.
  Pth(Pth&&) noexcept;
  Pth& operator=(Pth&&) noexcept;
  ///@}

  /// All tensors in the order of the state dict.
  const std::vector<std::string>& names() const;
  bool contains(const std::string& name) const;  ///< whether the file has that tensor
  /// `dtype_name` is the storage's class, "FloatStorage", or where there is none torch's dtype,
  /// "uint16"; `offset` that of the first element.
  /// Throws FileError when there is no such tensor.
  const TensorInfo& info(const std::string& name) const;

  /// One tensor with the strides it was saved with, a view of its whole storage. Throws FileError
  /// for a missing name, a dtype that brim has not got, damage.
  Tensor load(const std::string& name, Device device = {}) const;
  /// Tensors that shared a storage when they were saved share one again.
  TensorMap load_all(Device device = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All tensors of a file. Throws FileError.
TensorMap load_pth(const std::string& path, Device device = {});

/// Writes `tensors` (any device and layout; stored row-major, each with a storage of its own)
/// atomically as an OrderedDict that torch.load(path, weights_only=True) reads. Equal input gives
/// equal bytes. Throws FileError, and ValueError for names that are no UTF-8.
void save_pth(const std::string& path, const TensorMap& tensors);

}  // namespace brim::io
