// Archives that are open are shared: the test split costs no second decompression.
#include "data/source/archive.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "core/check.h"
#include "data/file.h"
#include "data/source/archive_reader.h"

namespace brim::data {

std::span<const uint8_t> Arena::copy(std::span<const uint8_t> bytes) {
  constexpr size_t kChunk = size_t{4} << 20;
  if (chunks_.empty() || bytes.size() > left_) {
    const size_t size = std::max(kChunk, bytes.size());
    chunks_.push_back(std::make_unique_for_overwrite<uint8_t[]>(size));
    next_ = chunks_.back().get();
    left_ = size;
  }
  uint8_t* const to = next_;
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  next_ += bytes.size();
  left_ -= bytes.size();
  total_ += static_cast<int64_t>(bytes.size());
  return {to, bytes.size()};
}

Archive::Archive(const std::string& path, bool labels, const OpenProgress& progress) {
  ArchiveReader reader(path, labels);
  std::string name;
  std::span<const uint8_t> bytes;
  const int64_t budget = memory_budget();
  while (reader.next(name, bytes)) {
    entries.push_back({name, static_cast<int64_t>(blobs.size())});
    blobs.push_back(reader.mapped() ? bytes : arena.copy(bytes));
    if (reader.mapped()) file = reader.file();
    BRIM_CHECK(arena.total() <= budget, FileError,
               "{}: its pictures take more than half of the memory ({} MiB); unpack it to a folder",
               path, budget >> 20);
    if (progress && !progress(reader.fraction()))
      raise<Error>("{}: stopped before all of it was read", path);
  }
  if (progress) progress(1);
}

void Archive::decode(size_t blob, const std::string& name, Image& out) const {
  with_check(*this, [&] { decode_image(blobs[blob], name, out); });
}

void Archive::check() const {
  if (file) file->check();
}

std::shared_ptr<const Archive> load_archive(const std::string& path, bool labels,
                                            const OpenProgress& progress) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Archive>> open_archives;
  struct stat info {};
  BRIM_CHECK(::stat(path.c_str(), &info) == 0, FileError, "{}: cannot open: {}", path,
             std::strerror(errno));
  const std::string key =
      fmt::format("{}:{}:{}:{}.{:09}:{}", info.st_dev, info.st_ino, info.st_size,
                  info.st_mtim.tv_sec, info.st_mtim.tv_nsec, labels);
  const std::lock_guard lock(mutex);
  std::erase_if(open_archives, [](const auto& item) { return item.second.expired(); });
  if (auto archive = open_archives[key].lock()) return archive;
  auto archive = std::make_shared<const Archive>(path, labels, progress);
  open_archives[key] = archive;
  return archive;
}

}  // namespace brim::data
