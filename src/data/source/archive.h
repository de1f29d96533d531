// What a tar holds, in memory: one pass over the archive, then random access to its compressed
// pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <brim/data/source.h>
#include "data/mapped_file.h"
#include "data/source/listing.h"

namespace brim::data {

/// Appends byte strings to large chunks; what it returns never moves.
class Arena {
 public:
  std::span<const uint8_t> copy(std::span<const uint8_t> bytes);
  int64_t total() const { return total_; }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  uint8_t* next_ = nullptr;
  size_t left_ = 0;
  int64_t total_ = 0;
};

/// The pictures of an archive, still compressed, in the order of the archive.
struct Archive {
  /// With `labels`, .cls files are kept as well. Throws FileError for damage, hostile entries, and
  /// pictures that take more than half of the memory.
  Archive(const std::string& path, bool labels, const OpenProgress& progress);

  /// Decodes a picture. Throws FileError that begins with `name`.
  void decode(size_t blob, const std::string& name, Image& out) const;
  /// As Source::check.
  void check() const;

  std::shared_ptr<const MappedFile> file;  // where blobs lie in it
  Arena arena;
  std::vector<Entry> entries;  // payload: place in `blobs`
  std::vector<std::span<const uint8_t>> blobs;
};

/// Reads an archive, or returns the one that is open already.
std::shared_ptr<const Archive> load_archive(const std::string& path, bool labels,
                                            const OpenProgress& progress);

}  // namespace brim::data
