// A zip file of stored entries whose bytes lie aligned, as torch.save writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/atomic_file.h"

namespace brim::io {

class ZipWriter {
 public:
  /// Sizes and offsets from `zip64_from` on go into zip64 records (lower only in tests).
  explicit ZipWriter(AtomicFile& file, uint64_t zip64_from = 0xffffffff)
      : file_(file), zip64_from_(zip64_from) {}

  /// The first byte lies at a multiple of 64. Throws FileError.
  void add(std::string_view name, const void* data, uint64_t bytes);
  void add(std::string_view name, std::string_view text) { add(name, text.data(), text.size()); }
  /// Writes the directory; the file is left to commit. Throws FileError.
  void finish();

 private:
  AtomicFile& file_;
  uint64_t zip64_from_;
  uint64_t at_ = 0, count_ = 0;
  std::string directory_;
};

}  // namespace brim::io
