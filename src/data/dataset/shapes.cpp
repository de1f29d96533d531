// The built-in pictures with masks and with several labels: drawn whenever they are read, which
// takes less time than the way to floats and no memory.
#include <fmt/core.h>

#include <array>

#include "data/dataset/picture_source.h"
#include "data/image/decode.h"
#include "data/source/shapes_draw.h"
#include "diag/span.h"

namespace brim::data {
namespace {

constexpr int64_t kTrain = 4000, kTest = 500;

/// What both sets share.
class DrawnPictures : public PictureSource {
 public:
  int64_t size() const final {
    return split_ == Split::train ? kTrain : split_ == Split::test ? kTest : kTrain + kTest;
  }
  const std::vector<std::string>& names() const final { return names_; }
  std::string describe(int64_t i) const final {
    return fmt::format("{} {} {}", set_, is_test(i) ? "test" : "train", index(i));
  }
  void read(int64_t i, RawPicture& out) const final {
    const diag::AddTicks time(out.decoding);
    const ImageShape shape{3, side_, side_};
    out.file.resize(static_cast<size_t>(shape.bytes()));  // as planes
    draw(is_test(i) ? 1 : 0, index(i), out.file.data(), out);
    copy_as_rgb({out.file.data(), shape, PixelOrder::chw}, out.image.make<uint8_t>());
  }

 protected:
  DrawnPictures(const char* set, int side, Split split) : set_(set), side_(side), split_(split) {}

  /// Draws the planes, and the mask or the targets of `out`. `part`: 0 for train, 1 for test.
  virtual void draw(int part, int64_t index, uint8_t* planes, RawPicture& out) const = 0;

  template <class Kinds>
  void add_names(const Kinds& kinds) {
    for (const drawing::Kind kind : kinds) names_.emplace_back(drawing::kKindNames[kind]);
  }

  std::vector<std::string> names_;

 private:
  // Split::all is train followed by test.
  bool is_test(int64_t i) const { return split_ == Split::test || i >= kTrain; }
  int64_t index(int64_t i) const { return split_ == Split::test ? i : i % kTrain; }

  const char* const set_;
  const int side_;
  const Split split_;
};

class DrawnMasks final : public DrawnPictures {
 public:
  DrawnMasks(Split split, uint64_t seed)
      : DrawnPictures("shapes-masks", drawing::kMaskSide, split), seed_(seed) {
    names_.emplace_back("background");
    add_names(drawing::kMaskKinds);
  }

 private:
  void draw(int part, int64_t index, uint8_t* planes, RawPicture& out) const override {
    prepare_image({1, drawing::kMaskSide, drawing::kMaskSide}, out.mask);
    drawing::draw_masked(seed_, part, index, planes, out.mask.pixels.data());
  }

  const uint64_t seed_;
};

class DrawnLabels final : public DrawnPictures {
 public:
  DrawnLabels(Split split, uint64_t seed)
      : DrawnPictures("shapes-labels", drawing::kLabelSide, split), seed_(seed) {
    add_names(drawing::kLabelKinds);
  }

 private:
  void draw(int part, int64_t index, uint8_t* planes, RawPicture& out) const override {
    std::array<bool, drawing::kLabelKinds.size()> present;
    drawing::draw_labelled(seed_, part, index, planes, present);
    out.targets.assign(present.begin(), present.end());
  }

  const uint64_t seed_;
};

}  // namespace

PictureDataPtr open_shapes_masks(Split split, const PictureOptions& options, uint64_t seed) {
  return transformed(std::make_unique<DrawnMasks>(split, seed), options);
}

PictureDataPtr open_shapes_labels(Split split, const PictureOptions& options, uint64_t seed) {
  return transformed(std::make_unique<DrawnLabels>(split, seed), options);
}

}  // namespace brim::data
