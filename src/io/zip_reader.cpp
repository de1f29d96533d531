// The directory at the end is what counts; local headers only tell where the bytes begin, for
// torch.save leaves their sizes empty.
#include "io/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "core/check.h"
#include "io/text.h"

namespace brim::io {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                   kLocatorBytes = 20;
constexpr uint64_t kFull16 = 0xffff, kFull32 = 0xffffffff;  // the value is in the zip64 record
constexpr uint64_t kEncrypted = 1 | 1 << 6 | 1 << 13;

template <class T>
T at(const void* bytes, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(bytes) + offset, sizeof value);
  return value;
}

/// The zip64 record among an entry's extra fields.
std::optional<std::string_view> zip64_record(std::string_view extra) {
  while (extra.size() >= 4) {
    const auto id = at<uint16_t>(extra.data(), 0), size = at<uint16_t>(extra.data(), 2);
    if (size > extra.size() - 4) return std::nullopt;
    if (id == 1) return extra.substr(4, size);
    extra.remove_prefix(4 + size_t{size});
  }
  return std::nullopt;
}

/// FOLDER/...: the folder is named after the file, so "epoch:3" and ".." (of "...pth") are good;
/// behind it torch.save writes no "..".
bool good_name(std::string_view name) {
  if (name.empty() || name.front() == '/' ||
      name.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos)
    return false;
  for (size_t slash = name.find('/'); slash != std::string_view::npos;) {
    const size_t end = name.find('/', slash + 1);
    if (name.substr(slash + 1, end - slash - 1) == "..") return false;
    slash = end;
  }
  return true;
}

}  // namespace

ZipReader::ZipReader(const InputBytes& input) : input_(input) {
  const std::string& path = input.path();
  const uint64_t size = input.size();
  char end[kEndBytes];
  bool found = size >= kEndBytes;
  if (found) {
    input.read(end, kEndBytes, size - kEndBytes);
    found = at<uint32_t>(end, 0) == kEnd && at<uint16_t>(end, 20) == 0;
  }
  BRIM_CHECK(found, FileError,
             "[pth] {}: the zip directory is not at the end of its {} bytes; the file is truncated "
             "or something was appended to it",
             path, size);
  uint64_t limit = size - kEndBytes;
  uint64_t count = at<uint16_t>(end, 10), bytes = at<uint32_t>(end, 12),
           begin = at<uint32_t>(end, 16);
  if (count == kFull16 || bytes == kFull32 || begin == kFull32) {
    char locator[kLocatorBytes] = {}, end64[kEnd64Bytes] = {};
    if (limit >= kLocatorBytes) input.read(locator, kLocatorBytes, limit - kLocatorBytes);
    const auto where = at<uint64_t>(locator, 8);
    const bool good = at<uint32_t>(locator, 0) == kLocator64 &&
                      limit - kLocatorBytes >= kEnd64Bytes &&
                      where <= limit - kLocatorBytes - kEnd64Bytes;
    if (good) input.read(end64, kEnd64Bytes, where);
    BRIM_CHECK(good && at<uint32_t>(end64, 0) == kEnd64, FileError,
               "[pth] {}: the zip64 record that its directory asks for is missing; the file is "
               "damaged",
               path);
    limit = where;
    count = at<uint64_t>(end64, 32);
    bytes = at<uint64_t>(end64, 40);
    begin = at<uint64_t>(end64, 48);
  }
  BRIM_CHECK(begin <= limit && bytes <= limit - begin && count <= bytes / kCentralBytes, FileError,
             "[pth] {}: a zip directory of {} entries in {} bytes at {} does not fit the {} bytes "
             "before its end; the file is damaged",
             path, count, bytes, begin, limit);
  read_directory(begin, begin + bytes, count);
  find_data(begin);
}

void ZipReader::read_directory(uint64_t begin, uint64_t end, uint64_t count) {
  const std::string& path = input_.path();
  std::string directory(end - begin, '\0');
  input_.read(directory.data(), directory.size(), begin);
  std::string_view rest = directory;
  for (uint64_t i = 0; i < count; ++i) {
    const char* p = rest.data();
    const bool whole = rest.size() >= kCentralBytes && at<uint32_t>(p, 0) == kCentral;
    const uint64_t name_bytes = whole ? at<uint16_t>(p, 28) : 0;
    const uint64_t extra_bytes = whole ? at<uint16_t>(p, 30) : 0;
    const uint64_t all =
        kCentralBytes + name_bytes + extra_bytes + (whole ? at<uint16_t>(p, 32) : 0);
    BRIM_CHECK(whole && all <= rest.size(), FileError,
               "[pth] {}: entry {} of {} of the zip directory is cut off or damaged", path, i + 1,
               count);
    const std::string name(rest.substr(kCentralBytes, name_bytes));
    const std::string shown = shortened(name);
    BRIM_CHECK(good_name(name), FileError,
               "[pth] {}: the zip entry '{}' names a place outside the archive; the file is not "
               "what torch.save writes",
               path, shown);
    BRIM_CHECK((at<uint16_t>(p, 8) & kEncrypted) == 0, FileError,
               "[pth] {}: the zip entry '{}' is encrypted; decrypt the file first", path, shown);
    ZipEntry entry{.header = at<uint32_t>(p, 42),
                   .bytes = at<uint32_t>(p, 24),
                   .crc = at<uint32_t>(p, 16),
                   .compressed = at<uint16_t>(p, 10) != 0};
    uint64_t packed = at<uint32_t>(p, 20);
    // The record holds only those of the three that are full, in this order.
    std::string_view wide = zip64_record(rest.substr(kCentralBytes + name_bytes, extra_bytes))
                                .value_or(std::string_view());
    for (uint64_t* value : {&entry.bytes, &packed, &entry.header}) {
      if (*value != kFull32) continue;
      BRIM_CHECK(wide.size() >= 8, FileError,
                 "[pth] {}: the zip entry '{}' lacks its zip64 sizes; the file is damaged", path,
                 shown);
      *value = at<uint64_t>(wide.data(), 0);
      wide.remove_prefix(8);
    }
    if (entry.compressed) entry.bytes = packed;
    BRIM_CHECK(packed == entry.bytes, FileError,
               "[pth] {}: the stored zip entry '{}' has two sizes, {} and {}; the file is damaged",
               path, shown, packed, entry.bytes);
    BRIM_CHECK(entries_.emplace(name, entry).second, FileError,
               "[pth] {}: the zip entry '{}' appears twice; the file is damaged", path, shown);
    rest.remove_prefix(all);
  }
  BRIM_CHECK(rest.empty(), FileError,
             "[pth] {}: {} bytes follow the {} entries of the zip directory; the file is damaged",
             path, rest.size(), count);
}

void ZipReader::find_data(uint64_t directory) {
  const std::string& path = input_.path();
  std::vector<std::pair<const std::string*, ZipEntry*>> order;
  for (auto& [name, entry] : entries_) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second->header < b.second->header; });
  uint64_t before = 0;
  for (const auto& [name, entry] : order) {
    const std::string shown = shortened(*name);
    BRIM_CHECK(entry->header >= before, FileError,
               "[pth] {}: the zip entry '{}' begins at {}, inside the one before it, which ends at "
               "{}; the file is damaged",
               path, shown, entry->header, before);
    const uint64_t need = kLocalBytes + name->size();
    bool good = entry->header <= directory && need <= directory - entry->header;
    if (good) {
      std::string local(need, '\0');
      input_.read(local.data(), need, entry->header);
      good = at<uint32_t>(local.data(), 0) == kLocal &&
             at<uint16_t>(local.data(), 26) == name->size() &&
             std::string_view(local).substr(kLocalBytes) == *name;
      entry->offset = entry->header + need + at<uint16_t>(local.data(), 28);
    }
    BRIM_CHECK(good, FileError,
               "[pth] {}: the zip entry '{}' has no header of its name at {}; the file is damaged",
               path, shown, entry->header);
    BRIM_CHECK(entry->offset <= directory && entry->bytes <= directory - entry->offset, FileError,
               "[pth] {}: the zip entry '{}' declares {} bytes at {}, but the directory begins at "
               "{}; the file is truncated or damaged",
               path, shown, entry->bytes, entry->offset, directory);
    before = entry->offset + entry->bytes;
  }
}

void ZipReader::read(const std::string& name, const ZipEntry& entry, void* to) const {
  BRIM_CHECK(!entry.compressed, FileError,
             "[pth] {}: the zip entry '{}' is compressed, which torch.save never does; save it "
             "again with torch.save",
             input_.path(), shortened(name));
  input_.read(to, entry.bytes, entry.offset);
  // 0 stands for "not computed" (torch.serialization.set_crc32_options(False)).
  BRIM_CHECK(entry.crc == 0 || crc32_z(0, static_cast<const Bytef*>(to), entry.bytes) == entry.crc,
             FileError,
             "[pth] {}: the {} bytes of '{}' do not have their checksum; the file is damaged",
             input_.path(), entry.bytes, shortened(name));
}

}  // namespace brim::io
