// The zip files that torch.save writes (PKWARE APPNOTE 6.3): entries are stored, not compressed.
// Everything that the directory declares is checked against the bytes that are there.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "io/input_bytes.h"

namespace brim::io {

struct ZipEntry {
  uint64_t header = 0;  // where its local header begins
  uint64_t offset = 0;  // of its first byte
  uint64_t bytes = 0;   // in the file
  uint32_t crc = 0;
  bool compressed = false;  // cannot be read
};

class ZipReader {
 public:
  /// Reads and checks the directory; `input` must outlive this object. Throws FileError for
  /// entries that are encrypted, overlapping, named twice or named out of the archive.
  explicit ZipReader(const InputBytes& input);

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  /// Fills `to` with the entry's bytes. Throws FileError when they are compressed or do not have
  /// their checksum.
  void read(const std::string& name, const ZipEntry& entry, void* to) const;

 private:
  void read_directory(uint64_t begin, uint64_t end, uint64_t count);
  void find_data(uint64_t directory);

  const InputBytes& input_;
  std::map<std::string, ZipEntry, std::less<>> entries_;
};

}  // namespace brim::io
