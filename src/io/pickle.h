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

/// What an element is, by torch's name for it: the class of a storage ("FloatStorage"), or a dtype
/// ("uint16"), which stands beside each tensor over an UntypedStorage.
struct ElementType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;  // empty for types that brim has not got

  constexpr bool has_class() const { return name.ends_with("Storage"); }
};

/// Elements of one type in the zip entry data/KEY; an UntypedStorage is one of uint8.
struct PickledStorage {
  const ElementType* type = nullptr;
  std::string key;
  int64_t count = 0;
};

/// A view of a storage, whose elements all lie inside it.
struct PickledTensor {
  std::string name;
  size_t storage = 0;  // index into PickledState::storages
  const ElementType* type = nullptr;
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

const ElementType& element_type(DType dtype);

}  // namespace brim::io
