// Reading the JSON files of a checkpoint, which may be damaged. Numbers are written so that they
// read back to the same bits; NaN becomes null.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <brim/core/random.h>

#include "core/check.h"
#include "train/checkpointer.h"

namespace brim::train {

using Json = nlohmann::ordered_json;

inline constexpr uint64_t kMaxStateBytes = uint64_t{256} << 20;  // a million classes have room

/// An object. Throws FileError.
Json read_checkpoint_json(const std::string& path);

/// A string, a double or an unsigned number. Throws FileError.
template <class T>
T json_field(const Json& json, const char* key, const std::string& path) {
  const auto it = json.find(key);
  bool good = it != json.end();
  if constexpr (std::is_same_v<T, std::string>)
    good = good && it->is_string();
  else if constexpr (std::is_same_v<T, double>)
    good = good && (it->is_number() || it->is_null());
  else
    good = good && it->is_number_unsigned();
  BRIM_CHECK(good, FileError, "[checkpoint] {} has no valid '{}'; the checkpoint is damaged", path,
             key);
  if constexpr (std::is_same_v<T, double>)
    if (it->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return it->get<T>();
}

/// What a trainer's checkpoints and those of loops of one's own have in common.
inline constexpr uint64_t kCheckpointFormat = 2;  // 1 knew only ends of epochs
/// Throws FileError where a checkpoint is of another format.
void check_format(uint64_t format, const std::string& path);
BestCheckpoint read_best(const Json& json, const std::string& path);
/// Of the global generator.
RandomKey read_random(const Json& json, const std::string& path);

/// A count that leaves room to go on counting. Throws FileError.
int64_t json_count(const Json& json, const char* key, const std::string& path);

}  // namespace brim::train
