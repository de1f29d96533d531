// Fuzz target: any bytes as an archive of pictures, with the layout rules on what it names.
#include <brim/core/error.h>
#include <brim/data/source.h>

#include <cstddef>
#include <cstdint>
#include <deque>

#include "data/source/archive_reader.h"
#include "data/source/listing.h"
#include "data/source/shards.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim::data;
  std::vector<Entry> entries;
  try {
    ArchiveReader reader(std::span<const uint8_t>(data, size), "fuzz");
    std::string name;
    std::span<const uint8_t> bytes;
    while (reader.next(name, bytes)) {
      if (!bytes.empty() && bytes[0] + bytes[bytes.size() - 1] > 510)
        name += "x";  // touch both ends
      entries.push_back({name});
    }
  } catch (const brim::FileError&) {
  }
  try {  // the same as a shard
    ArchiveReader reader(std::span<const uint8_t>(data, size), "fuzz", true);
    std::vector<Entry> fields;
    std::deque<std::vector<uint8_t>> contents;
    std::vector<std::span<const uint8_t>> blobs;
    std::string name;
    std::span<const uint8_t> bytes;
    while (reader.next(name, bytes)) {
      fields.push_back({name});
      blobs.emplace_back(contents.emplace_back(bytes.begin(), bytes.end()));
    }
    for (const ShardSample& sample : pair_samples(fields, blobs, "fuzz"))
      if (sample.picture >= fields.size() || sample.label < 0) __builtin_trap();
  } catch (const brim::FileError&) {
  }
  for (const Split split : {Split::train, Split::test, Split::all}) {
    try {
      const Listing listing = make_listing(entries, "fuzz", split);
      if (listing.labels.size() != listing.entries.size()) __builtin_trap();
    } catch (const brim::FileError&) {
    }
  }
  return 0;
}
