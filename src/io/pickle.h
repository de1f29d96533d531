// The pickle inside a .pth file, read by a machine that can build tensors, dicts, lists and tuples
// and nothing else. It calls nothing, imports nothing and knows a short list of names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>

namespace brim::io {

/// A class of torch that names what a storage holds: "FloatStorage".
struct StorageType {
  std::string_view name;
  uint64_t bytes;              // of an element
  std::optional<DType> dtype;  // empty for types that brim has not got
};

/// Elements of one type in the zip entry data/KEY.
struct PickledStorage {
  const StorageType* type = nullptr;
  std::string key;
  int64_t count = 0;
};

/// A view of a storage, whose elements all lie inside it.
struct PickledTensor {
  std::string name;
  size_t storage = 0;  // index into PickledState::storages
  int64_t offset = 0;  // in elements, as the strides
  Shape shape;
  Strides strides;
};

struct PickledState {
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;  // in the order of the state dict
};

/// The state dict in `pickle` (protocols 1 to 5). A dict without tensors that holds exactly one
/// state dict stands for that one. Throws FileError naming `path` for whatever is not allowed,
/// damaged, or no state dict.
PickledState parse_pickle(std::string_view pickle, const std::string& path);

/// The storage class of a dtype.
const StorageType& storage_type(DType dtype);

}  // namespace brim::io
