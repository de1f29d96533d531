// A file that appears under its name only when it is complete: written beside it, synced, renamed.
// Whatever goes wrong before commit() leaves the old file as it was and no temporary one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/hash.h"

namespace brim::io {

/// Who makes the name durable: commit(), or the caller, after several files, with sync_folder().
enum class FolderSync : uint8_t { now, later };

/// What happens where a link lies at the path. To follow it is for paths that a user gave: the link
/// stays what it is, and the file it leads to is replaced.
enum class Links : uint8_t { follow, replace };

/// What is large, written beside work that matters more and not read soon goes past the system's
/// cache, where the file system can: that takes the processor a tenth of the time, and drives
/// nothing out that others read.
enum class Cache : uint8_t { use, bypass };

class AtomicFile {
 public:
  /// Opens a temporary file in the folder of `path`, and removes those that killed processes left
  /// of the same path. A file that is replaced leaves its permissions to the new one. Throws
  /// FileError naming `path`.
  explicit AtomicFile(const std::string& path, Links links = Links::follow,
                      Cache cache = Cache::use);
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws FileError (for example when the disk is full).
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// All that is written from the beginning on goes into `hash`, too, which is whole after
  /// commit().
  void hash_into(StreamHash& hash) { hash_ = &hash; }
  /// Lets the system begin to store what was written. Before the commits of several files: they
  /// then wait for the disk together. Throws FileError.
  void start_writeback();
  /// Makes the file durable under its name. Throws FileError.
  void commit(FolderSync folder = FolderSync::now);
  const std::string& path() const { return path_; }

 private:
  void open_temporary(std::optional<unsigned> old_mode);
  [[noreturn]] void fail(const char* what, int error);
  void discard() noexcept;
  void flush();
  void put(const char* from, size_t bytes);
  bool set_bypass(bool on) noexcept;

  std::string path_;
  std::string temporary_;  // equal to path_ where that is a device or pipe, which is never replaced
  struct Free {
    void operator()(char* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<char, Free> buffer_;  // aligned as writes past the cache must be
  size_t buffered_ = 0, capacity_;
  bool bypasses_ = false;
  StreamHash* hash_ = nullptr;
  int fd_ = -1;
};

/// Writes `text` as the whole content of `path`, atomically. Throws FileError.
void write_file_atomically(const std::string& path, std::string_view text);

/// The same with the content of another file; a link at `to` is replaced.
void copy_file_atomically(const std::string& from, const std::string& to);

/// Makes what was renamed into `folder` durable. Throws FileError.
void sync_folder(const std::string& folder);

/// Where a link to a regular file leads; any other path as it is.
std::string without_links(const std::string& path);

/// The folder that holds `path`: "." for a bare name.
std::string parent_folder(const std::string& path);

/// "No space left on device": what errno says, as text.
std::string error_text(int error);

}  // namespace brim::io
