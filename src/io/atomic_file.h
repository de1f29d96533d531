// A file that appears under its name only when it is complete: written beside it, synced, renamed.
// Whatever goes wrong before commit() leaves the old file as it was and no temporary one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace brim::io {

/// Who makes the name durable: commit(), or the caller, after several files, with sync_folder().
enum class FolderSync : uint8_t { now, later };

/// What happens where a link lies at the path. To follow it is for paths that a user gave: the link
/// stays what it is, and the file it leads to is replaced.
enum class Links : uint8_t { follow, replace };

class AtomicFile {
 public:
  /// Opens a temporary file in the folder of `path`, and removes those that killed processes left
  /// of the same path. A file that is replaced leaves its permissions to the new one. Throws
  /// FileError naming `path`.
  explicit AtomicFile(const std::string& path, Links links = Links::follow);
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws FileError (for example when the disk is full).
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
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

  std::string path_;
  std::string temporary_;  // equal to path_ where that is a device or pipe, which is never replaced
  std::string buffer_;
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
