// Pictures with masks, in folders.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/dataset/csv_lines.h"
#include "data/dataset/picture_source.h"
#include "data/image/decode.h"
#include "data/source/class_names.h"
#include "data/source/image_folder.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

struct MaskedPicture {
  std::string picture, mask;  // paths
};

std::string without_suffix(const std::string& name) { return name.substr(0, name.rfind('.')); }

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The pictures of images/ in a folder, sorted, with their masks.
std::vector<MaskedPicture> list_masked(const fs::path& folder) {
  const fs::path images = folder / "images", masks = folder / "masks";
  BRIM_CHECK(is_folder(masks), FileError, "{}: no such folder; the masks of {} belong there",
             masks.string(), images.string());
  std::map<std::string, std::string> by_stem;
  for (const Entry& entry : list_pictures(masks.string())) {
    if (lower_extension(entry.path) != "png") continue;
    const auto [other, first] = by_stem.emplace(without_suffix(entry.path), entry.path);
    BRIM_CHECK(first, FileError, "{}: a second mask beside {}; remove one",
               (masks / entry.path).string(), other->second);
  }
  std::vector<Entry> entries = list_pictures(images.string());
  BRIM_CHECK(!entries.empty(), FileError, "{}: holds no .jpg, .jpeg or .png file", images.string());
  std::ranges::sort(entries, {}, &Entry::path);
  std::vector<MaskedPicture> found;
  for (const Entry& entry : entries) {
    const std::string stem = without_suffix(entry.path), picture = (images / entry.path).string();
    const auto mask = by_stem.find(stem);
    BRIM_CHECK(mask != by_stem.end(), FileError, "{}: its mask {} is missing", picture,
               (masks / (stem + ".png")).string());
    found.push_back({picture, (masks / mask->second).string()});
  }
  return found;
}

/// What a folder has of a split: the folders that hold images/ and masks/, train before test.
struct SplitFolders {
  std::vector<fs::path> all, wanted;
};

SplitFolders split_folders(const fs::path& path, Split split) {
  const auto has = [&](const char* part) { return is_folder(path / part / "images"); };
  const bool plain = is_folder(path / "images"), train = has("train");
  const char* const test = has("test") ? "test" : has("val") ? "val" : nullptr;
  BRIM_CHECK(plain || train || test != nullptr, FileError,
             "{}: no images/ with masks/ beside it, and none in train/ and test/", path.string());
  BRIM_CHECK(!plain || (!train && test == nullptr), FileError,
             "{}: has images/ and also {}/images/; move one of them away", path.string(),
             train ? "train" : test);
  SplitFolders folders;
  const auto add = [&](const fs::path& folder, Split part) {
    folders.all.push_back(folder);
    if (split == Split::all || split == part) folders.wanted.push_back(folder);
  };
  if (plain) add(path, Split::train);
  if (train) add(path / "train", Split::train);
  if (test != nullptr) add(path / test, Split::test);
  if (folders.wanted.empty())
    raise<NoSuchSplit>(
        "{}: has no {} split; {}", path.string(), to_string(split),
        plain ? "images/ and masks/ are all train" : "expected images/ and masks/ in it");
  return folders;
}

std::vector<std::string> read_class_names(const std::string& path) {
  std::vector<std::string> names;
  read_text(path, [&](std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      names.emplace_back(trimmed(line));
    }
  });
  while (!names.empty() && names.back().empty()) names.pop_back();
  const std::string wrong = wrong_class_names(names);
  BRIM_CHECK(wrong.empty(), FileError, "{}: {}", path, wrong);
  BRIM_CHECK(!names.empty() && names.size() <= kIgnoredClass, FileError,
             "{}: {} classes; expected 1 to {}, for {} is no class", path, names.size(),
             kIgnoredClass, kIgnoredClass);
  return names;
}

class MaskFolder final : public PictureSource {
 public:
  MaskFolder(const std::string& path, Split split) {
    const SplitFolders folders = split_folders(path, split);
    const std::string classes = (fs::path(path) / "classes.txt").string();
    std::error_code ignored;
    if (fs::exists(classes, ignored)) names_ = read_class_names(classes);
    const bool named = !names_.empty();
    int largest = -1;
    for (const fs::path& folder : folders.all) {
      const bool wanted = std::ranges::find(folders.wanted, folder) != folders.wanted.end();
      if (!wanted && named) continue;
      for (MaskedPicture& sample : list_masked(folder)) {
        if (!named) largest = std::max(largest, largest_class(sample));
        if (wanted) samples_.push_back(std::move(sample));
      }
    }
    BRIM_CHECK(named || largest >= 0, FileError, "{}: all values of all masks are {}, no class",
               path, kIgnoredClass);
    for (int value = 0; value <= largest; ++value) names_.push_back(std::to_string(value));
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<std::string>& names() const override { return names_; }
  std::string describe(int64_t i) const override { return at(i).picture; }

  void read(int64_t i, RawPicture& out) const override {
    const MaskedPicture& sample = at(i);
    read_picture(sample.picture, out);
    read_mask(sample.mask, out);
    const ImageShape picture = out.image.shape();
    BRIM_CHECK(picture.height == out.mask.height && picture.width == out.mask.width, FileError,
               "{}: {} x {} pixels, and its mask {} has {} x {}", sample.picture, picture.width,
               picture.height, sample.mask, out.mask.width, out.mask.height);
    const auto classes = static_cast<int>(names_.size());
    const auto beyond = std::ranges::find_if(
        out.mask.pixels, [&](int value) { return value >= classes && value != kIgnoredClass; });
    if (beyond == out.mask.pixels.end()) return;
    const auto pixel = beyond - out.mask.pixels.begin();
    raise<FileError>(
        "{}: its mask {} has {} in column {} of row {}; there are {} classes (0 to {}, "
        "and {} for none)",
        sample.picture, sample.mask, *beyond, pixel % out.mask.width, pixel / out.mask.width,
        classes, classes - 1, kIgnoredClass);
  }

 private:
  const MaskedPicture& at(int64_t i) const { return samples_[static_cast<size_t>(i)]; }

  // -1 for none.
  static int largest_class(const MaskedPicture& sample) {
    RawPicture raw;
    read_mask(sample.mask, raw);
    int largest = -1;
    for (const int value : raw.mask.pixels)
      if (value != kIgnoredClass) largest = std::max(largest, value);
    return largest;
  }

  std::vector<std::string> names_;
  std::vector<MaskedPicture> samples_;
};

}  // namespace

PictureDataPtr open_segmentation(const std::string& path, Split split,
                                 const PictureOptions& options) {
  return transformed(std::make_unique<MaskFolder>(path, split), options);
}

}  // namespace brim::data
