// Weights that files hold in another form than as one tensor; any reader of safetensors sees their
// parts as they are. Without their columns of zeros: "NAME.values", "NAME.columns", "NAME.starts"
// and, where there is one, "NAME.outputs" (brim/ops/sparse.h says what they are), and in the
// metadata "brim.sparse": {NAME: {"shape": [..], "vector": V, "permuted": B}, ..}. In 8-bit
// integers: "NAME.values", "NAME.scales" and, where there is one, "NAME.correction"
// (brim/ops/int8.h), and "brim.int8": {NAME: {"scale": s, "zero_point": z, "corrected": B}, ..},
// the first two of the layer's inputs. Both at once: all of these parts, and all of it in
// "brim.int8".
#pragma once

#include <brim/io/safetensors.h>
#include <brim/train/weights.h>

#include <map>
#include <string>

namespace brim::train {

inline constexpr const char* kSparseKey = "brim.sparse";
inline constexpr const char* kInt8Key = "brim.int8";

/// Throws FileError naming `path` where metadata or parts are damaged.
std::map<std::string, WeightsFile::Encoded> encoded_weights(const io::SafeTensors& file,
                                                            const std::string& path);

/// The tensors, with those weights sparse that take fewer bytes so, and what is to be added to the
/// metadata.
io::TensorMap sparse_tensors(const io::TensorMap& dense, int64_t vector, io::Metadata& metadata);

/// The tensors, with those weights in integers that `layers` has.
io::TensorMap int8_tensors(const io::TensorMap& dense, const compress::Int8Layers& layers,
                           io::Metadata& metadata);

}  // namespace brim::train
