// Tensors in several safetensors files, and the index that says which one has which: the layout of
// Hugging Face's models ("model.safetensors.index.json" beside "model-00001-of-00003.safetensors").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brim::io {

/// What the name of an index has behind that of the file which would hold all.
inline constexpr std::string_view kIndexSuffix = ".index.json";

struct ShardIndex {
  std::string path;                                            ///< of the index
  std::map<std::string, std::vector<std::string>> tensors_of;  ///< by file, in the same folder
};

/// Reads one without trust: its files are in its own folder. Throws FileError.
ShardIndex read_shard_index(const std::string& path);
/// Its text. `bytes`: of all tensors.
std::string shard_index_text(const ShardIndex& index, uint64_t bytes);

/// "model-00002-of-00003.safetensors" for the second of three.
std::string shard_name(const std::string& stem, int number, int count);

}  // namespace brim::io
