// Weights that files hold without their columns of zeros: as tensors "NAME.values", "NAME.columns"
// and "NAME.starts" (brim/ops/sparse.h says what they are), which any reader of safetensors sees as
// they are, and in the metadata "brim.sparse": {NAME: {"shape": [..], "vector": V}, ..}.
#pragma once

#include <brim/io/safetensors.h>
#include <brim/ops/sparse.h>

#include <map>
#include <string>

namespace brim::train {

inline constexpr const char* kSparseKey = "brim.sparse";

/// What a file says of such a weight; values, columns and starts are undefined.
using SparseIndex = std::map<std::string, SparseWeight>;

/// Throws FileError naming `path` where the metadata is damaged.
SparseIndex sparse_index(const io::Metadata& metadata, const std::string& path);

/// The tensors, with those weights sparse that take fewer bytes so, and what is to be added to the
/// metadata.
io::TensorMap sparse_tensors(const io::TensorMap& dense, int64_t vector, io::Metadata& metadata);

}  // namespace brim::train
