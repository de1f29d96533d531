// CIFAR-10 binary: every label and file size is checked when the source is opened.
#include "data/source/cifar10.h"

#include <brim/data/source.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "core/check.h"
#include "data/file.h"
#include "data/image/decode.h"
#include "data/mapped_file.h"
#include "data/prefetch.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

// The number N of "data_batch_N.bin", or -1.
int batch_number(const std::string& name) {
  constexpr std::string_view kHead = "data_batch_", kTail = ".bin";
  if (!name.starts_with(kHead) || !name.ends_with(kTail) ||
      name.size() <= kHead.size() + kTail.size()) {
    return -1;
  }
  int number = -1;
  const char* const end = name.data() + name.size() - kTail.size();
  const auto [at, error] = std::from_chars(name.data() + kHead.size(), end, number);
  return error == std::errc() && at == end ? number : -1;
}

// Where the files lie: the folder itself or the one that the official archive unpacks to.
std::string cifar10_folder(const std::string& path) {
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "cifar-10-batches-bin"}) {
    std::error_code error;
    if (fs::exists(folder / "test_batch.bin", error) ||
        !cifar10_train_files(folder.string()).empty()) {
      return folder.string();
    }
  }
  return "";
}

std::vector<std::string> read_classes(const fs::path& folder) {
  const std::string path = (folder / kCifarMeta).string();
  std::error_code error;
  if (!fs::exists(path, error) && !error)
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<uint8_t> bytes;
  read_file(path, bytes);
  std::istringstream in(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> classes;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) classes.push_back(line);
    BRIM_CHECK(classes.size() <= 256, FileError, "{}: more than 256 class names", path);
  }
  BRIM_CHECK(!classes.empty(), FileError,
             "{}: holds no class names; write one a line, or remove it for the ten of CIFAR-10",
             path);
  return classes;
}

class Cifar10 final : public Source {
 public:
  Cifar10(const std::vector<std::string>& paths, const fs::path& folder)
      : classes_(read_classes(folder)) {
    for (const std::string& path : paths) add(path);
  }

  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return labels_[static_cast<size_t>(i)]; }
  ImageShape image_shape() const override { return {3, kCifarSide, kCifarSide}; }
  bool in_memory() const override { return true; }
  ImageView view(int64_t i) const override {
    return {records_[static_cast<size_t>(i)] + 1, image_shape(), PixelOrder::chw};
  }

  void prefetch(int64_t i) const noexcept override {
    data::prefetch(records_[static_cast<size_t>(i)], kCifarRecord);
  }
  void read(int64_t i, Image& out) const override {
    copy_as_rgb(view(i), out);
    file_of(i).check();
  }
  void check() const override {
    for (const MappedFile& file : files_) file.check();
  }

  std::string describe(int64_t i) const override {
    const MappedFile& file = file_of(i);
    const int64_t at = records_[static_cast<size_t>(i)] - file.bytes().data();
    return fmt::format("{} record {}", file.path(), at / kCifarRecord);
  }

 private:
  const MappedFile& file_of(int64_t i) const {
    const uint8_t* const record = records_[static_cast<size_t>(i)];
    return *std::find_if(files_.begin(), files_.end(), [&](const MappedFile& file) {
      const auto bytes = file.bytes();
      return record >= bytes.data() && record < bytes.data() + bytes.size();
    });
  }

  void add(const std::string& path) {
    MappedFile file(path);
    const auto bytes = file.bytes();
    const auto size = static_cast<int64_t>(bytes.size());
    BRIM_CHECK(size > 0 && size % kCifarRecord == 0, FileError,
               "{}: {} bytes; a CIFAR-10 file holds whole records of {} bytes ({} records and {} "
               "bytes here)",
               path, size, kCifarRecord, size / kCifarRecord, size % kCifarRecord);
    for (int64_t at = 0; at < size; at += kCifarRecord) {
      const uint8_t* const record = bytes.data() + at;
      BRIM_CHECK(*record < classes_.size(), FileError,
                 "{}: record {} has label {}; expected 0 to {}", path, at / kCifarRecord, *record,
                 classes_.size() - 1);
      records_.push_back(record);
      labels_.push_back(*record);
    }
    file.check();
    files_.push_back(std::move(file));
  }

  std::vector<std::string> classes_;
  std::vector<MappedFile> files_;
  std::vector<const uint8_t*> records_;
  std::vector<uint8_t> labels_;
};

}  // namespace

std::vector<std::string> cifar10_train_files(const std::string& folder) {
  std::vector<std::pair<int, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const int number = batch_number(at->path().filename().string());
    if (number >= 0) found.emplace_back(number, at->path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

bool is_cifar10_folder(const std::string& path) { return !cifar10_folder(path).empty(); }

std::shared_ptr<const Source> open_cifar10(const std::string& path, Split split) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    // A lone file is one split: what its name says.
    const bool test = fs::path(path).filename().string().starts_with("test");
    const Split held = test ? Split::test : Split::train;
    BRIM_CHECK(split == Split::all || split == held, data::NoSuchSplit,
               "{}: holds {} samples only, so there is no {} split; pass the folder with "
               "data_batch_*.bin and test_batch.bin, or take what there is (Split::all)",
               path, to_string(held), to_string(split));
    return std::make_shared<Cifar10>(std::vector<std::string>{path}, fs::path(path).parent_path());
  }
  const fs::path folder = cifar10_folder(path);
  BRIM_CHECK(!folder.empty(), FileError,
             "{}: no data_batch_1.bin ... data_batch_5.bin and test_batch.bin in it", path);
  std::vector<std::string> paths;
  if (split != Split::test) {
    paths = cifar10_train_files(folder.string());
    BRIM_CHECK(split == Split::all || !paths.empty(), data::NoSuchSplit,
               "{}: no data_batch_*.bin, so there is no train split", folder.string());
  }
  if (split != Split::train) {
    const fs::path test = folder / "test_batch.bin";
    const bool exists = fs::exists(test, error);
    BRIM_CHECK(split == Split::all || exists, data::NoSuchSplit,
               "{}: missing, so there is no test split; take what there is with Split::all",
               test.string());
    if (exists) paths.push_back(test.string());
  }
  return std::make_shared<Cifar10>(paths, folder);
}

}  // namespace brim::data
