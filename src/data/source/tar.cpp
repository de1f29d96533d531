// Tar of images: the layout of an image folder over the pictures of an archive.
#include <brim/data/source.h>

#include "core/check.h"
#include "data/source/archive.h"
#include "data/source/listing.h"

namespace brim::data {
namespace {

class ImageTar final : public Source {
 public:
  ImageTar(const std::string& path, Split split, const OpenProgress& progress)
      : path_(path),
        archive_(load_archive(path, false, progress)),
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
    archive_->decode(blob_of(i), describe(i), out);
  }
  void check() const override { archive_->check(); }
  std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>&) const override {
    return archive_->blobs[blob_of(i)];
  }

 private:
  size_t blob_of(int64_t i) const {
    return static_cast<size_t>(listing_.entries[static_cast<size_t>(i)].payload);
  }

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
