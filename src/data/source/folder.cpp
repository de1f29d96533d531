// Image folder: the listing is made once, files are read when asked for.
#include <brim/data/source.h>

#include <filesystem>

#include "core/check.h"
#include "data/file.h"
#include "data/source/cifar10.h"
#include "data/source/idx.h"
#include "data/source/image_folder.h"
#include "data/source/listing.h"
#include "io/paths.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

// Every picture below `root`, without hidden files. Folders reached by a link are followed, to a
// depth that no sane tree has, so that a loop of links ends.
void collect(const fs::path& root, const std::string& prefix, int depth,
             std::vector<Entry>& entries) {
  const fs::path folder = prefix.empty() ? root : root / prefix;
  const std::string below = prefix.empty() ? "" : prefix + "/";
  BRIM_CHECK(depth < 16, FileError, "{}: folders nested deeper than 16, or a loop of links",
             folder.string());
  std::error_code error;
  fs::directory_iterator at(folder, error);
  BRIM_CHECK(!error, FileError, "{}: cannot list the folder: {}", folder.string(), error.message());
  size_t folders = 0, before = entries.size();
  for (const fs::directory_iterator end; at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(".")) {
      std::error_code ignored;  // a dangling link or a file that just went away is not listed
      if (at->is_directory(ignored)) {
        ++folders;
        collect(root, below + name, depth + 1, entries);
      } else if (has_image_extension(name) && at->is_regular_file(ignored)) {
        entries.push_back({below + name});
      }
    }
    BRIM_CHECK(!error, FileError, "{}: cannot list the folder: {}", folder.string(),
               error.message());
  }
  BRIM_CHECK(depth == 0 || folders > 0 || entries.size() > before, FileError,
             "{}: holds no .jpg, .jpeg or .png file; fill or remove it", folder.string());
}

class ImageFolder final : public Source {
 public:
  ImageFolder(std::string root, Split split) : root_(std::move(root)) {
    while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
    listing_ = make_listing(list_pictures(root_), root_, split);
  }

  int64_t size() const override { return static_cast<int64_t>(listing_.entries.size()); }
  const std::vector<std::string>& classes() const override { return listing_.classes; }
  int64_t label(int64_t i) const override { return listing_.labels[static_cast<size_t>(i)]; }
  std::string describe(int64_t i) const override {
    return root_ + "/" + listing_.entries[static_cast<size_t>(i)].path;
  }

  void read(int64_t i, Image& out) const override {
    static thread_local std::vector<uint8_t> bytes;
    decode_image(file(i, bytes), describe(i), out);
  }
  std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>& buffer) const override {
    read_file(describe(i), buffer);
    return buffer;
  }

 private:
  std::string root_;
  Listing listing_;
};

}  // namespace

std::vector<Entry> list_pictures(const std::string& root) {
  std::vector<Entry> entries;
  collect(root, "", 0, entries);
  return entries;
}

std::shared_ptr<const Source> open_image_folder(const std::string& path, Split split) {
  return std::make_shared<ImageFolder>(path, split);
}

void check_outside(const std::string& where, const std::string& out) {
  std::error_code error;
  if (!fs::is_directory(where, error) || is_cifar10_folder(where) || is_idx_folder(where)) return;
  BRIM_CHECK(
      !io::lies_in(io::real_path(out), io::real_path(where)), FileError,
      "[data] {} lies in {}, all of whose folders are read as pictures; choose one elsewhere", out,
      where);
}

}  // namespace brim::data
