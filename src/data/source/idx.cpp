// MNIST's IDX files: headers, sizes and labels are checked when the source is opened.
#include "data/source/idx.h"

#include <brim/data/source.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/check.h"
#include "data/file.h"
#include "data/gzip.h"
#include "data/image/decode.h"
#include "data/mapped_file.h"
#include "data/prefetch.h"
#include "data/source/parts.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

enum class Kind : uint8_t { labels = 1, images = 3 };  // the number of dimensions

const char* name_of(Kind kind) { return kind == Kind::images ? "images" : "labels"; }

// The files of one split; "" for one that is not there.
struct Files {
  const char* split;  // as the files call it
  std::string images, labels;

  bool exists() const { return !images.empty() || !labels.empty(); }
};

// The unpacked file is taken where both are: it can be mapped.
std::string find_file(const fs::path& folder, const char* split, Kind kind) {
  for (const char* ending : {"", ".gz"}) {
    for (const char* mark : {"-", "."}) {
      const fs::path path = folder / fmt::format("{}-{}{}idx{}-ubyte{}", split, name_of(kind), mark,
                                                 static_cast<int>(kind), ending);
      std::error_code error;  // Kaggle's copy has folders of these names beside the files
      if (fs::exists(path, error) && !fs::is_directory(path, error)) return path.string();
    }
  }
  return "";
}

// Train and test.
std::array<Files, 2> find_files(const fs::path& folder) {
  std::array<Files, 2> files = {Files{"train", "", ""}, Files{"t10k", "", ""}};
  for (Files& f : files) {
    f.images = find_file(folder, f.split, Kind::images);
    f.labels = find_file(folder, f.split, Kind::labels);
  }
  return files;
}

std::string idx_folder(const std::string& path) {
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "raw"}) {
    for (const Files& files : find_files(folder))
      if (files.exists()) return folder.string();
  }
  return "";
}

// One file, checked: `count` labels, or pictures of height x width.
class IdxFile {
 public:
  IdxFile(const std::string& path, Kind kind, const OpenProgress& progress = {})
      : kind_(kind), path_(path), file_(path) {
    const auto bytes = file_.bytes();
    const size_t header_size = 4 + 4 * static_cast<size_t>(kind);
    std::array<uint8_t, 16> header{};
    if (looks_like_gzip(bytes)) {
      GzipReader reader(bytes, path);
      reader.read({header.data(), header_size});
      const int64_t size = parse(header);
      inflate(reader, size, progress);
      return;
    }
    BRIM_CHECK(bytes.size() >= header_size, FileError,
               "{}: {} bytes; the header of an IDX file of {} has {}", path, bytes.size(),
               name_of(kind), header_size);
    std::memcpy(header.data(), bytes.data(), header_size);
    const int64_t size = parse(header);
    data_ = bytes.subspan(header_size);
    BRIM_CHECK(size == static_cast<int64_t>(data_.size()), FileError,
               "{}: declares {}, which take {} bytes, but {} follow the header; copy or download "
               "it again",
               path, declared(), size, data_.size());
    check();
  }

  const std::string& path() const { return path_; }
  int64_t count() const { return count_; }
  ImageShape shape() const { return {3, static_cast<int>(height_), static_cast<int>(width_)}; }
  std::span<const uint8_t> data() const { return data_; }
  void check() const { file_.check(); }
  std::span<const uint8_t> image(int64_t i) const {
    const auto size = static_cast<size_t>(height_ * width_);
    return data_.subspan(static_cast<size_t>(i) * size, size);
  }

 private:
  std::string declared() const {
    return kind_ == Kind::labels ? fmt::format("{} labels", count_)
                                 : fmt::format("{} pictures of {} x {}", count_, height_, width_);
  }

  // Takes the dimensions (big-endian, behind the magic number); returns the bytes that must follow.
  int64_t parse(const std::array<uint8_t, 16>& header) {
    const auto word = [&](size_t at) {
      int64_t value = 0;
      for (size_t k = 0; k < 4; ++k) value = value << 8 | header[at + k];
      return value;
    };
    const int64_t magic = 0x800 + static_cast<int64_t>(kind_);  // 8: unsigned bytes
    BRIM_CHECK(word(0) == magic, FileError,
               "{}: begins with 0x{:08x}; an IDX file of {} begins with 0x{:08x}", path_, word(0),
               name_of(kind_), magic);
    count_ = word(4);
    if (kind_ == Kind::images) height_ = word(8), width_ = word(12);
    BRIM_CHECK(count_ > 0 && height_ > 0 && width_ > 0, FileError, "{}: declares {}", path_,
               declared());
    BRIM_CHECK(width_ <= kMaxPixels / height_, FileError,
               "{}: declares {}; the limit is {} pixels each", path_, declared(), kMaxPixels);
    return count_ * height_ * width_;  // below 2^32 * 2^27
  }

  void inflate(GzipReader& reader, int64_t size, const OpenProgress& progress) {
    const auto packed = static_cast<int64_t>(file_.bytes().size());
    BRIM_CHECK(size / kMaxGzipRatio <= packed, FileError,
               "{}: declares {}, which take {} bytes, but a gzip file of {} bytes cannot hold them",
               path_, declared(), size, packed);
    BRIM_CHECK(size <= memory_budget(), FileError,
               "{}: declares {}, which take more than half of the memory; unpack it with gunzip",
               path_, declared());
    const auto total = static_cast<size_t>(size);
    inflated_ = std::make_unique_for_overwrite<uint8_t[]>(total);
    constexpr size_t kStep = size_t{4} << 20;
    for (size_t done = 0; done < total;) {
      const size_t step = std::min(kStep, total - done);
      reader.read({inflated_.get() + done, step});
      done += step;
      if (progress && !progress(static_cast<double>(done) / static_cast<double>(total)))
        raise<Error>("{}: stopped before all of it was read", path_);
    }
    reader.finish();
    data_ = {inflated_.get(), total};
    file_ = MappedFile();  // the packed bytes are done with
  }

  Kind kind_;
  std::string path_;
  MappedFile file_;
  std::unique_ptr<uint8_t[]> inflated_;
  std::span<const uint8_t> data_;
  int64_t count_ = 0, height_ = 1, width_ = 1;
};

// One split.
struct IdxPart {
  IdxFile images;
  std::vector<uint8_t> labels;
  int64_t first = 0;
};

class Idx final : public SourceOfParts<IdxPart> {
 public:
  Idx(const std::array<Files, 2>& files, Split split, const OpenProgress& progress) {
    std::vector<IdxFile> all_labels;  // the classes must be the same for both splits
    for (size_t s = 0; s < files.size(); ++s) {
      const Files& f = files[s];
      const bool wanted = split == Split::all || (split == Split::train) == (s == 0);
      BRIM_CHECK(!wanted || f.images.empty() == f.labels.empty(), FileError,
                 "{}: has no {}-{} file beside it; an MNIST folder has images and labels of each "
                 "split",
                 f.images.empty() ? f.labels : f.images, f.split,
                 name_of(f.images.empty() ? Kind::images : Kind::labels));
      if (f.labels.empty()) continue;
      all_labels.emplace_back(f.labels, Kind::labels);
      if (wanted) add_files(IdxFile(f.images, Kind::images, progress), all_labels.back());
    }
    name_classes(all_labels);
    for (const IdxFile& labels : all_labels) labels.check();
  }

  ImageShape image_shape() const override {
    const ImageShape shape = parts_[0].images.shape();
    return parts_.back().images.shape() == shape ? shape : ImageShape{};
  }

  void prefetch(int64_t i) const noexcept override {
    const IdxPart& part = part_of(i);
    const auto picture = part.images.image(i - part.first);
    data::prefetch(picture.data(), static_cast<int64_t>(picture.size()));
  }
  void read(int64_t i, Image& out) const override {
    const IdxPart& part = part_of(i);
    const ImageShape rgb = part.images.shape();
    copy_as_rgb(
        {part.images.image(i - part.first).data(), {1, rgb.height, rgb.width}, PixelOrder::chw},
        out);
    part.images.check();
  }
  void check() const override {
    for (const IdxPart& part : parts_) part.images.check();
  }

  std::string describe(int64_t i) const override {
    const IdxPart& part = part_of(i);
    return fmt::format("{} image {}", part.images.path(), i - part.first);
  }

 private:
  void add_files(IdxFile images, const IdxFile& labels) {
    BRIM_CHECK(images.count() == labels.count(), FileError,
               "{}: holds {} labels, but {} holds {} images; both must be of one data set",
               labels.path(), labels.count(), images.path(), images.count());
    add({std::move(images), {labels.data().begin(), labels.data().end()}});
  }

  // Ten digits, or as many classes as there are labels. A label far above all others is damage.
  void name_classes(const std::vector<IdxFile>& files) {
    std::array<bool, 256> seen{};
    std::fill_n(seen.begin(), 10, true);
    for (const IdxFile& file : files)
      for (const uint8_t label : file.data()) seen[label] = true;
    const auto count = std::find(seen.begin(), seen.end(), false) - seen.begin();
    for (const IdxFile& file : files) {
      for (int64_t i = 0; i < file.count(); ++i) {
        const uint8_t label = file.data()[static_cast<size_t>(i)];
        BRIM_CHECK(label < count, FileError,
                   "{}: sample {} has label {}, but none has {}; expected 0 to 9, or classes "
                   "without a gap",
                   file.path(), i, label, count);
      }
    }
    for (int64_t label = 0; label < count; ++label) classes_.push_back(std::to_string(label));
  }
};

}  // namespace

bool is_idx_folder(const std::string& path) { return !idx_folder(path).empty(); }

bool is_idx_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.find("idx1-ubyte") != std::string::npos ||
         name.find("idx3-ubyte") != std::string::npos;
}

std::shared_ptr<const Source> open_idx(const std::string& path, Split split,
                                       const OpenProgress& progress) {
  const std::string folder = idx_folder(path);
  BRIM_CHECK(!folder.empty(), FileError,
             "{}: no train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte or "
             "t10k-labels-idx1-ubyte in it (.gz or not)",
             path);
  const std::array<Files, 2> files = find_files(folder);
  for (const Split held : {Split::train, Split::test}) {
    const Files& f = files[held == Split::train ? 0 : 1];
    BRIM_CHECK(split != held || f.exists(), data::NoSuchSplit,
               "{}: no {}-images-idx3-ubyte, so there is no {} split; take what there is with "
               "Split::all",
               folder, f.split, to_string(held));
  }
  return std::make_shared<Idx>(files, split, progress);
}

}  // namespace brim::data
