// The JSON header of a safetensors file: parsed without trust, written in a fixed order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <brim/io/safetensors.h>

namespace brim::io {

/// The reference implementation's limit.
inline constexpr uint64_t kMaxHeader = 100'000'000;

struct SafeTensorsHeader {
  std::vector<std::string> names;  // in the order of their bytes
  std::unordered_map<std::string, TensorInfo> tensors;
  Metadata metadata;
};

/// Parses and checks a header: known dtypes, sizes that fit, and tensors that cover the
/// `data_bytes` bytes behind it without gap or overlap. Offsets in the result count from
/// `data_start`. Throws FileError naming `path`.
SafeTensorsHeader parse_header(std::string_view json, uint64_t data_start, uint64_t data_bytes,
                               const std::string& path);

/// The format's name of a dtype: "F32"; empty for c128.
std::string_view safetensors_name(DType dtype);

}  // namespace brim::io
