// Tar of images: one pass over the archive, then random access to the compressed pictures in
// memory.
#include <brim/data/source.h>

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "core/check.h"
#include "data/source/archive_reader.h"
#include "data/source/listing.h"

namespace brim::data {
namespace {

// Appends byte strings to large chunks; what it returns never moves.
class Arena {
 public:
  std::span<const uint8_t> copy(std::span<const uint8_t> bytes) {
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
  int64_t total() const { return total_; }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  uint8_t* next_ = nullptr;
  size_t left_ = 0;
  int64_t total_ = 0;
};

// The pictures of an archive, still compressed, in the order of the archive.
struct Archive {
  std::shared_ptr<const MappedFile> file;
  Arena arena;
  std::vector<Entry> entries;
  std::vector<std::span<const uint8_t>> blobs;

  Archive(const std::string& path, const OpenProgress& progress) {
    ArchiveReader reader(path);
    file = reader.file();
    std::string name;
    std::span<const uint8_t> bytes;
    const int64_t budget = memory_budget();
    while (reader.next(name, bytes)) {
      entries.push_back({name, static_cast<int64_t>(blobs.size())});
      blobs.push_back(reader.mapped() ? bytes : arena.copy(bytes));
      BRIM_CHECK(
          arena.total() <= budget, FileError,
          "{}: its pictures take more than half of the memory ({} MiB); unpack it to a folder",
          path, budget >> 20);
      if (progress && !progress(reader.fraction()))
        raise<Error>("{}: stopped before all of it was read", path);
    }
    if (progress) progress(1);
  }
};

// The test split of an archive whose train split is open costs no second decompression.
std::shared_ptr<const Archive> load_archive(const std::string& path, const OpenProgress& progress) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Archive>> open_archives;
  struct stat info {};
  BRIM_CHECK(::stat(path.c_str(), &info) == 0, FileError, "{}: cannot open: {}", path,
             std::strerror(errno));
  const std::string key = fmt::format("{}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, info.st_size,
                                      info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  const std::lock_guard lock(mutex);
  std::erase_if(open_archives, [](const auto& item) { return item.second.expired(); });
  if (auto archive = open_archives[key].lock()) return archive;
  auto archive = std::make_shared<const Archive>(path, progress);
  open_archives[key] = archive;
  return archive;
}

class ImageTar final : public Source {
 public:
  ImageTar(const std::string& path, Split split, const OpenProgress& progress)
      : path_(path),
        archive_(load_archive(path, progress)),
        listing_(make_listing(archive_->entries, path, split)) {
    const auto& entries = listing_.entries;
    for (size_t i = 1; i < entries.size(); ++i) {
      BRIM_CHECK(entries[i].path != entries[i - 1].path, FileError, "{}: entry \"{}\" occurs twice",
                 path, entries[i].path);
    }
  }

  int64_t size() const override { return static_cast<int64_t>(listing_.entries.size()); }
  const std::vector<std::string>& classes() const override { return listing_.classes; }
  int64_t label(int64_t i) const override { return listing_.labels[static_cast<size_t>(i)]; }
  std::string describe(int64_t i) const override {
    return path_ + ": " + listing_.entries[static_cast<size_t>(i)].path;
  }
  void read(int64_t i, Image& out) const override {
    const auto at = static_cast<size_t>(listing_.entries[static_cast<size_t>(i)].payload);
    decode_image(archive_->blobs[at], describe(i), out);
  }

 private:
  std::string path_;
  std::shared_ptr<const Archive> archive_;
  Listing listing_;
};

}  // namespace

std::shared_ptr<const Source> open_image_tar(const std::string& path, Split split,
                                             const OpenProgress& progress) {
  return std::make_shared<ImageTar>(path, split, progress);
}

}  // namespace brim::data
