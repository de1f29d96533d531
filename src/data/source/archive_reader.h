// Reads the pictures of a tar (plain, gzip, xz, zstd) one after another, through libarchive.
// Nothing is unpacked to disk. Hostile entries (links, devices, absolute paths, "..") end the
// reading.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.h"

namespace brim::data {

class ArchiveReader {
 public:
  /// Maps the file and finds its compression. With `labels`, .cls files are read too. Throws
  /// FileError.
  explicit ArchiveReader(const std::string& path, bool labels = false);
  /// Reads an archive that lies in memory; `bytes` must outlive the reader.
  ArchiveReader(std::span<const uint8_t> bytes, std::string name, bool labels = false);
  ~ArchiveReader();

  /// From now on `next` gives every file, not pictures only.
  void read_everything() { everything_ = true; }

  /// Moves to the next .jpg, .jpeg, .png or (with `labels`) .cls file; false at the end. `bytes` is
  /// valid until the next call, or as long as `file()` when `mapped()` is true. Throws FileError
  /// for damage or a hostile entry.
  bool next(std::string& name, std::span<const uint8_t>& bytes);

  /// Whether the last bytes lie in the mapped file itself (a plain tar).
  bool mapped() const { return mapped_; }

  /// Position in the compressed file, for progress: 0 to 1.
  double fraction() const;

  /// The map, to keep it alive beyond the reader.
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  struct Impl;
  void open();
  bool read_next(std::string& name, std::span<const uint8_t>& bytes);
  void check_end();

  std::shared_ptr<const MappedFile> file_;
  std::span<const uint8_t> input_;
  std::string path_;
  std::unique_ptr<Impl> impl_;
  std::vector<uint8_t> buffer_;
  bool labels_ = false, everything_ = false;
  bool mapped_ = false;
  bool in_entry_ = false;  // a header was read, its data perhaps not
};

/// True if the first bytes are those of a tar, or of a gzip, xz or zstd file.
bool looks_like_archive(std::span<const uint8_t> bytes);

}  // namespace brim::data
