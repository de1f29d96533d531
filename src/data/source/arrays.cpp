// Pictures and labels as arrays in a safetensors file: mapped, and every shape and label is checked
// when the source is opened.
#include "data/source/arrays.h"

#include <brim/data/source.h>
#include <brim/io/safetensors.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/check.h"
#include "data/image/decode.h"
#include "data/mapped_file.h"
#include "data/prefetch.h"
#include "data/source/parts.h"

namespace brim::data {
namespace {

constexpr const char* kExpected =
    "expected images (or train_images and test_images) of u8, (N, C, H, W), (N, H, W, C) or "
    "(N, H, W) with 1 or 3 channels, and labels (train_labels, test_labels) of i64, i32 or u8, (N)";

// The pictures of one split, where they lie.
struct Part {
  const uint8_t* pixels = nullptr;
  ImageShape stored;  // with 1 or 3 channels
  PixelOrder order = PixelOrder::hwc;
  std::vector<int32_t> labels;
  std::string name;  // "x.safetensors: train_images"
  int64_t first = 0;
};

// Height, width and channels of (N, C, H, W), (N, H, W, C) or (N, H, W).
void take_shape(const Shape& shape, const std::string& name, Part& part) {
  const auto channels = [&](int axis) { return shape[axis] == 1 || shape[axis] == 3; };
  const bool grey = shape.rank() == 3;
  const bool chw = shape.rank() == 4 && channels(1);
  const bool hwc = shape.rank() == 4 && !chw && channels(3);
  BRIM_CHECK(grey || chw || hwc, FileError, "{}: has shape {}; {}", name, shape.str(), kExpected);
  const int64_t height = shape[chw ? 2 : 1], width = shape[chw ? 3 : 2];
  BRIM_CHECK(shape[0] > 0 && height > 0 && width > 0 && width <= kMaxPixels / height, FileError,
             "{}: has shape {}; there must be pictures of 1 to {} pixels", name, shape.str(),
             kMaxPixels);
  part.stored = {grey ? 1 : static_cast<int>(shape[chw ? 1 : 3]), static_cast<int>(height),
                 static_cast<int>(width)};
  part.order = chw || grey ? PixelOrder::chw : PixelOrder::hwc;
}

int64_t label_at(const uint8_t* data, DType dtype, int64_t i) {
  if (dtype == DType::u8) return data[i];
  int64_t wide = 0;
  int32_t narrow = 0;
  if (dtype == DType::i64) {
    std::memcpy(&wide, data + 8 * i, 8);  // need not be aligned
    return wide;
  }
  std::memcpy(&narrow, data + 4 * i, 4);
  return narrow;
}

class Arrays final : public SourceOfParts<Part> {
 public:
  Arrays(const std::string& path, Split split) : file_(path) {
    const io::SafeTensors tensors(path);
    const bool split_up = tensors.contains("train_images") || tensors.contains("test_images");
    BRIM_CHECK(split_up || tensors.contains("images"), FileError,
               "{}: no pictures among its {} arrays; {}", path, tensors.names().size(), kExpected);
    int64_t classes = 0;
    for (const char* prefix :
         split_up ? std::vector<const char*>{"train_", "test_"} : std::vector<const char*>{""}) {
      const ArrayNames names = array_names(prefix);
      if (!tensors.contains(names.images) && !tensors.contains(names.labels)) continue;
      Part part = open(tensors, path, names, classes);
      const bool test = prefix == std::string_view("test_");
      if (split == Split::all || (split == Split::test) == test) add(std::move(part));
    }
    BRIM_CHECK(!parts_.empty(), data::NoSuchSplit,
               "{}: has no {}_images, so there is no {} split; take what there is with Split::all",
               path, to_string(split), to_string(split));
    name_classes(tensors, path, classes);
    check();
  }

  ImageShape image_shape() const override {
    const auto rgb = [](const Part& p) { return ImageShape{3, p.stored.height, p.stored.width}; };
    return rgb(parts_[0]) == rgb(parts_.back()) ? rgb(parts_[0]) : ImageShape{};
  }
  bool in_memory() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& p) { return p.stored.channels == 3; });
  }
  ImageView view(int64_t i) const override {
    const Part& part = part_of(i);
    if (part.stored.channels != 3) return {};
    return stored(part, i);
  }
  void prefetch(int64_t i) const noexcept override {
    const ImageView picture = stored(part_of(i), i);
    data::prefetch(picture.pixels, picture.shape.bytes());
  }
  void read(int64_t i, Image& out) const override {
    copy_as_rgb(stored(part_of(i), i), out);
    check();
  }
  void check() const override { file_.check(); }
  std::string describe(int64_t i) const override {
    const Part& part = part_of(i);
    return fmt::format("{}[{}]", part.name, i - part.first);
  }

 private:
  static ImageView stored(const Part& part, int64_t i) {
    return {part.pixels + (i - part.first) * part.stored.bytes(), part.stored, part.order};
  }

  // `classes` becomes one more than the largest label, if it was less.
  Part open(const io::SafeTensors& tensors, const std::string& path, const ArrayNames& names,
            int64_t& classes) const {
    constexpr int64_t kMaxClasses = 100000;  // they have names in memory
    for (const std::string& name : {names.images, names.labels})
      BRIM_CHECK(tensors.contains(name), FileError, "{}: has no {}; {}", path, name, kExpected);
    const io::TensorInfo& images = tensors.info(names.images);
    const io::TensorInfo& labels = tensors.info(names.labels);
    Part part;
    part.name = fmt::format("{}: {}", path, names.images);
    BRIM_CHECK(images.dtype == DType::u8, FileError, "{}: is {}; {}", part.name, images.dtype_name,
               kExpected);
    take_shape(images.shape, part.name, part);
    const bool whole =
        labels.dtype == DType::i64 || labels.dtype == DType::i32 || labels.dtype == DType::u8;
    BRIM_CHECK(whole && labels.shape.rank() == 1, FileError, "{}: {} is {} of shape {}; {}", path,
               names.labels, labels.dtype_name, labels.shape.str(), kExpected);
    BRIM_CHECK(labels.shape[0] == images.shape[0], FileError,
               "{}: {} has {} pictures but {} has {} labels; both must be of one data set", path,
               names.images, images.shape[0], names.labels, labels.shape[0]);
    // The header was checked against the file that it read; the map is of the same path.
    const auto bytes = file_.bytes();
    for (const io::TensorInfo* t : {&images, &labels})
      BRIM_CHECK(t->offset <= bytes.size() && t->bytes <= bytes.size() - t->offset, FileError,
                 "{}: became shorter while it was read", path);
    part.pixels = bytes.data() + images.offset;
    part.labels.reserve(static_cast<size_t>(labels.shape[0]));
    for (int64_t i = 0; i < labels.shape[0]; ++i) {
      const int64_t label = label_at(bytes.data() + labels.offset, *labels.dtype, i);
      BRIM_CHECK(label >= 0 && label < kMaxClasses, FileError, "{}: {}[{}] is {}; expected 0 to {}",
                 path, names.labels, i, label, kMaxClasses - 1);
      classes = std::max(classes, label + 1);
      part.labels.push_back(static_cast<int32_t>(label));
    }
    return part;
  }

  // The names in the metadata, or numbers.
  void name_classes(const io::SafeTensors& tensors, const std::string& path, int64_t classes) {
    const auto found = tensors.metadata().find(kArrayClasses);
    if (found == tensors.metadata().end()) {
      for (int64_t label = 0; label < classes; ++label) classes_.push_back(std::to_string(label));
      return;
    }
    std::istringstream in(found->second);
    for (std::string line; std::getline(in, line);) classes_.push_back(line);
    BRIM_CHECK(static_cast<int64_t>(classes_.size()) >= classes, FileError,
               "{}: its metadata names {} classes, but there is a label {}", path, classes_.size(),
               classes - 1);
  }

  MappedFile file_;
};

}  // namespace

bool is_safetensors(const std::string& path) {
  // A header's length in eight bytes, then an object.
  char head[9] = {};
  std::ifstream in(path, std::ios::binary);
  return in.read(head, sizeof head) && head[8] == '{' && head[7] == 0 && head[6] == 0;
}

std::shared_ptr<const Source> open_arrays(const std::string& path, Split split) {
  return std::make_shared<Arrays>(path, split);
}

}  // namespace brim::data
