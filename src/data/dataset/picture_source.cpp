#include "data/dataset/picture_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "data/dataset/sample_access.h"
#include "data/file.h"
#include "data/image/channels.h"
#include "data/image/decode.h"
#include "data/transform/pixel_plan.h"
#include "diag/span.h"

namespace brim::data {
namespace {

class TransformedPictures final : public PictureData {
 public:
  TransformedPictures(std::unique_ptr<const PictureSource> source, const PictureOptions& options)
      : source_(std::move(source)), convert_(options.channels != 0) {
    BRIM_CHECK(
        options.channels >= 0 && options.channels <= 4, ValueError,
        "[data] pictures of {} channels; must be 1 to 4, or 0 for those of the first picture",
        options.channels);
    ImageShape first = first_shape();
    if (convert_) first.channels = options.channels;
    plan_.emplace(options.transform, first.channels);
    shape_ = plan_->output_shape(first);
  }

  int64_t size() const override { return source_->size(); }
  const std::vector<std::string>& names() const override { return source_->names(); }
  ImageShape shape() const override { return shape_; }
  std::string describe(int64_t i) const override { return source_->describe(i); }

  void get(int64_t i, Sample& out) const override {
    auto& buffers = out.scratch<Buffers>(this);
    RawPicture& raw = buffers.raw;
    raw.reading = raw.decoding = 0;
    source_->read(i, raw);
    SampleAccess::reading(out) += raw.reading;
    SampleAccess::decoding(out) += raw.decoding;
    KeyedRandom& random = out.random();
    const KeyedRandom before = random;
    std::visit(
        [&]<class T>(const BasicImage<T>& image) {
          const BasicImageView<T> view = with_channels(i, image, buffers.converted);
          const BasicWindow<T> window = plan_->place(view, random, buffers.plan);
          const int64_t height = window.box.height, width = window.box.width;
          plan_->write(window, out.make<float>("x", {plan_->channels(), height, width}).data());
        },
        raw.image.pixels);
    if (raw.mask.width > 0) {
      const Window mask = plan_->place_mask(raw.mask, before, buffers.plan);
      to_classes(mask, out.make<int64_t>("y", {mask.box.height, mask.box.width}).data());
      return;
    }
    const auto count = static_cast<int64_t>(raw.targets.size());
    std::ranges::copy(raw.targets,
                      out.make<float>("y", raw.scalar ? Shape{} : Shape{count}).begin());
  }

 private:
  // Of one thread.
  struct Buffers {
    RawPicture raw;
    PixelImage converted;
    PixelBuffers plan;
  };

  ImageShape first_shape() const {
    RawPicture raw;
    for (int64_t i = 0;; ++i) {
      try {
        source_->read(i, raw);
        return raw.image.shape();
      } catch (const FileError&) {
        if (i + 1 == size()) throw;
      }
    }
  }

  template <class T>
  BasicImageView<T> with_channels(int64_t i, const BasicImage<T>& image, PixelImage& spare) const {
    const int wanted = plan_->channels();
    if (image.channels == wanted) return image;
    BRIM_CHECK(convert_, FileError,
               "{}: {} channels, and the first picture has {}; PictureOptions::channels converts "
               "all",
               describe(i), image.channels, wanted);
    auto& converted = spare.make<T>();
    convert_channels(image, wanted, converted);
    return converted;
  }

  const std::unique_ptr<const PictureSource> source_;
  const bool convert_;
  std::optional<PixelPlan> plan_;
  ImageShape shape_;
};

void read_bytes(const std::string& path, RawPicture& out) {
  const diag::AddTicks time(out.reading);
  read_file(path, out.file);
}

}  // namespace

void read_picture(const std::string& path, RawPicture& out) {
  read_bytes(path, out);
  const diag::AddTicks time(out.decoding);
  decode_pixels(out.file, path, out.image);
}

void read_mask(const std::string& path, RawPicture& out) {
  read_bytes(path, out);
  const diag::AddTicks time(out.decoding);
  decode_mask(out.file, path, out.mask);
}

PictureDataPtr transformed(std::unique_ptr<const PictureSource> source,
                           const PictureOptions& options) {
  return std::make_shared<TransformedPictures>(std::move(source), options);
}

}  // namespace brim::data
