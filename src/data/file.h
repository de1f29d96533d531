// Files for the data layer: a whole-file read with errors that name the path, and folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace brim::data {

/// The largest single picture file or archive entry that is read into memory.
inline constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

/// Reads a regular file of at most kMaxFileBytes into `out`, whose memory is reused. Throws
/// FileError.
void read_file(const std::string& path, std::vector<uint8_t>& out);

/// Half of the machine's memory: what a source may hold of a packed file; beyond that it should be
/// unpacked.
int64_t memory_budget();

/// Notes which of a folder and those above it are missing, and at its end removes those that are
/// empty: what a failed command made for nothing.
class EmptyFolders {
 public:
  explicit EmptyFolders(const std::string& folder);
  EmptyFolders(const EmptyFolders&) = delete;
  EmptyFolders& operator=(const EmptyFolders&) = delete;
  ~EmptyFolders();

 private:
  std::vector<std::filesystem::path> missing_;  // from the inside out
};

}  // namespace brim::data
