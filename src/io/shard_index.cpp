#include "io/shard_index.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json_text.h"
#include "core/printable.h"
#include "io/regular_file.h"

namespace brim::io {
namespace {

constexpr uint64_t kMaxIndex = 100'000'000;  // as of a safetensors header
constexpr size_t kMaxShards = 10'000;
constexpr size_t kShown = 200;  // of a name, in messages

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name[0] != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

ShardIndex read_shard_index(const std::string& path) {
  const RegularFile file(path, "safetensors", "an index of .safetensors files");
  BRIM_CHECK(file.bytes() <= kMaxIndex, FileError,
             "[safetensors] {} holds {} bytes, more than the {} that an index may", path,
             file.bytes(), kMaxIndex);
  std::string text(file.bytes(), '\0');
  file.read(text.data(), text.size(), 0);
  const auto json = parse_json<nlohmann::json>(text);
  BRIM_CHECK(!json.is_discarded(), FileError,
             "[safetensors] {} is no valid JSON; it is no index of .safetensors files", path);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  BRIM_CHECK(json.is_object() && map != json.end() && map->is_object(), FileError,
             "[safetensors] {} has no 'weight_map'; it is no index of .safetensors files", path);
  ShardIndex index{.path = path};
  for (const auto& [tensor, shard] : map->items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    BRIM_CHECK(is_plain_name(name), FileError,
               "[safetensors] {} puts tensor '{}' into '{}', which is no name of a file beside it",
               path, printable(tensor.substr(0, kShown)), printable(name.substr(0, kShown)));
    index.tensors_of[name].push_back(tensor);
    BRIM_CHECK(index.tensors_of.size() <= kMaxShards, FileError,
               "[safetensors] {} lists more than {} files", path, kMaxShards);
  }
  return index;
}

std::string shard_index_text(const ShardIndex& index, uint64_t bytes) {
  std::map<std::string, std::string> sorted;
  for (const auto& [file, tensors] : index.tensors_of)
    for (const std::string& tensor : tensors) sorted[tensor] = file;
  const nlohmann::ordered_json json = {{"metadata", {{"total_size", bytes}}},
                                       {"weight_map", sorted}};
  return json.dump(2) + "\n";
}

std::string shard_name(const std::string& stem, int number, int count) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, number, count);
}

}  // namespace brim::io
