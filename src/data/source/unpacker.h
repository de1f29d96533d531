// The bytes of a packed file, block by block: gzip through zlib, xz and zstd through libarchive.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace brim::data {

/// Whoever reads to the end knows that checksums are right and that nothing follows.
class Unpacker {
 public:
  /// `bytes` must outlive this object; `name` begins its errors. Throws FileError.
  Unpacker(std::span<const uint8_t> bytes, const std::string& name);
  ~Unpacker();

  /// True where the bytes are not packed; then they are one block, which lives as long as they do.
  bool plain() const;

  /// The next block, valid until the next call; empty at the end. Throws FileError for damage.
  std::span<const uint8_t> next();

  /// How much of the packed bytes was taken: 0 to 1.
  double fraction() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brim::data
