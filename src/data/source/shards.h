// Tar shards: their names, and which files of one make a sample.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source/listing.h"

namespace brim::data {

/// True if the name holds a range in braces: "train-{000000..000009}.tar".
bool is_shard_pattern(const std::string& where);

/// The names that the range stands for, in order: numbers as wide as the first one is written.
/// Throws FileError for anything but one rising range of at most 100,000 numbers.
std::vector<std::string> shard_names(const std::string& pattern);

/// One sample of a shard.
struct ShardSample {
  size_t picture;  // its place among the entries
  int32_t label;
};

/// Pairs the pictures of a shard with the .cls files of the same name up to the first dot, in the
/// order of the pictures. `blobs` are the entries' bytes. Throws FileError, naming `where`, for a
/// picture without a label, a label without a picture, or one that is no number below 100,000.
std::vector<ShardSample> pair_samples(const std::vector<Entry>& entries,
                                      const std::vector<std::span<const uint8_t>>& blobs,
                                      const std::string& where);

}  // namespace brim::data
