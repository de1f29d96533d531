// Makes tar files for tests through libarchive, good and hostile ones.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <string>
#include <vector>

namespace brim::data::tests {

class TarWriter {
 public:
  /// `filter`: "", "gzip", "xz" or "zstd".
  TarWriter(const std::string& path, const std::string& filter = "")
      : handle_(archive_write_new()) {
    if (!filter.empty()) archive_write_add_filter_by_name(handle_, filter.c_str());
    archive_write_set_format_ustar(handle_);
    archive_write_open_filename(handle_, path.c_str());
  }
  ~TarWriter() { archive_write_free(handle_); }

  void file(const std::string& name, const std::vector<uint8_t>& bytes) {
    add(name, AE_IFREG, "", static_cast<int64_t>(bytes.size()));
    archive_write_data(handle_, bytes.data(), bytes.size());
  }
  void folder(const std::string& name) { add(name, AE_IFDIR, "", 0); }
  void symlink(const std::string& name, const std::string& to) { add(name, AE_IFLNK, to, 0); }
  void hardlink(const std::string& name, const std::string& to) {
    add(name, AE_IFREG, "=" + to, 0);
  }
  void fifo(const std::string& name) { add(name, AE_IFIFO, "", 0); }

 private:
  void add(const std::string& name, unsigned type, const std::string& link, int64_t size) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, size);
    if (type == AE_IFLNK) archive_entry_set_symlink(entry, link.c_str());
    if (link.starts_with("=")) archive_entry_set_hardlink(entry, link.c_str() + 1);
    archive_write_header(handle_, entry);
    archive_entry_free(entry);
  }

  archive* handle_;
};

/// Writes `bytes` through a compression, whatever they are.
inline void write_filtered(const std::string& path, const std::string& filter,
                           const std::vector<uint8_t>& bytes) {
  archive* const handle = archive_write_new();
  if (!filter.empty()) archive_write_add_filter_by_name(handle, filter.c_str());
  archive_write_set_format_raw(handle);
  archive_write_set_bytes_in_last_block(handle, 1);
  archive_write_open_filename(handle, path.c_str());
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(handle, entry);
  archive_write_data(handle, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_free(handle);
}

}  // namespace brim::data::tests
