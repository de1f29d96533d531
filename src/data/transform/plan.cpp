#include "data/transform/plan.h"

#include <optional>
#include <utility>

#include "core/check.h"
#include "data/image/decode.h"
#include "data/image/jpeg.h"
#include "data/keyed.h"
#include "data/transform/normalize.h"
#include "data/transform/random_resized_crop.h"
#include "data/transform/resample.h"
#include "data/transform/to_float.h"
#include "data/transform/window.h"
#include "diag/span.h"

namespace brim::data {
TransformPlan::TransformPlan(const Transform& transform) : steps_(transform.steps) {
  const std::vector<ChannelScale> scales = channel_scales(transform.normalize, 3);
  for (size_t c = 0; c < 3; ++c) scales_[c] = ByteScale(scales[c].mean, scales[c].std);
  bool cropped = false;
  for (last_part_ = steps_.size(); last_part_ > 0; --last_part_) {
    const TransformStep& step = steps_[last_part_ - 1];
    const bool crop = std::holds_alternative<RandomCrop>(step);
    if (!crop && !std::holds_alternative<HorizontalFlip>(step)) break;
    if (crop && cropped) break;
    cropped = cropped || crop;
  }
}

bool TransformPlan::draws_before_raw() const {
  for (size_t i = 0; i < last_part_; ++i)
    if (!std::holds_alternative<Resize>(steps_[i]) &&
        !std::holds_alternative<CenterCrop>(steps_[i]))
      return true;
  return false;
}

uint8_t TransformPlan::fill() const {
  for (size_t i = last_part_; i < steps_.size(); ++i)
    if (const auto* crop = std::get_if<RandomCrop>(&steps_[i])) return crop->fill;
  return 0;
}

ImageShape TransformPlan::output_shape(ImageShape in) const {
  return shape_after(steps_.size(), in);
}

ImageShape TransformPlan::shape_after(size_t end, ImageShape in) const {
  ImageShape shape = steps_.shape_after(end, in);
  if (end > 0 && shape.height > 0) shape.channels = 3;
  return shape;
}

void TransformPlan::apply(const ImageView& image, uint64_t key, const Output& out,
                          TransformScratch& scratch) const {
  BRIM_CHECK(image && image.shape.height > 0 && image.shape.width > 0 && image.shape.channels > 0,
             ShapeError, "a picture of width {}, height {} and {} channels is empty",
             image.shape.width, image.shape.height, image.shape.channels);
  run(0, Window(image), KeyedRandom(key), out, scratch);
}

void TransformPlan::apply_file(std::span<const uint8_t> bytes, const std::string& name,
                               uint64_t key, const Output& out, TransformScratch& scratch) const {
  const auto* crop = steps_.size() == 0 ? nullptr : std::get_if<RandomResizedCrop>(&steps_[0]);
  if (crop == nullptr || !looks_like_jpeg(bytes)) {
    {
      const diag::AddTicks time(scratch.decoding);
      decode_image(bytes, name, scratch.decoded);
    }
    with_name([&] { return name; }, [&] { apply(scratch.decoded, key, out, scratch); });
    return;
  }
  KeyedRandom random(key);
  std::optional<diag::AddTicks> time(std::in_place, scratch.decoding);
  JpegFile file(bytes, name);
  const Box part = choose_part(*crop, file.width(), file.height(), random);
  const int eighths = crop->scaled_decode ? choose_eighths(*crop, part) : 8;
  const Box place = file.decode(eighths, part, scratch.decoded);
  time.reset();
  const auto scaled = [&](int pixels) { return pixels * eighths / 8.0; };
  const Area area(scaled(part.x) - place.x, scaled(part.y) - place.y, scaled(part.width),
                  scaled(part.height));
  with_name(
      [&] { return name; },
      [&] {
        const int height = crop->height, width = side_or(crop->width, height);
        Image& first = scratch.steps.first;
        resample(ImageView(scratch.decoded), area, height, width, {0, 0, width, height}, first);
        run(1, Window(first), random, out, scratch);
      });
}

void TransformPlan::run(size_t first_step, Window window, KeyedRandom random, const Output& out,
                        TransformScratch& scratch) const {
  window = steps_.place(first_step, out.floats ? steps_.size() : last_part_, window, random,
                        scratch.steps);
  const int height = window.box.height, width = window.box.width;
  const ImageShape shape{window.image.shape.channels, height, width};
  BRIM_CHECK(
      shape == out.shape, ShapeError,
      "the picture is {} x {} x {} but the batch holds {} x {} x {}; add a Resize or CenterCrop",
      shape.channels, height, width, out.shape.channels, out.shape.height, out.shape.width);
  if (out.floats) return to_float(window, scales_, out.floats);
  to_planes(window, out.planes);
  *out.window = last_window(shape, random, scratch);
}

formula::PictureWindow TransformPlan::last_window(ImageShape raw, KeyedRandom& random,
                                                  TransformScratch& scratch) const {
  const ImageView nothing(nullptr, raw, PixelOrder::chw);  // crops and mirroring touch no pixel
  const Window window =
      steps_.place(last_part_, steps_.size(), Window(nothing), random, scratch.steps);
  return {.y = window.box.y, .x = window.box.x, .mirrored = window.flip};
}

formula::PictureWindow TransformPlan::window(uint64_t key, ImageShape raw) const {
  KeyedRandom random(key);
  TransformScratch scratch;
  return last_window(raw, random, scratch);
}

Tensor to_tensor(const ImageView& image, const Transform& transform, uint64_t key) {
  const TransformPlan plan(transform);
  BRIM_CHECK(image.shape.channels == 3, ShapeError,
             "[to_tensor] a picture of {} channels; expected 3 (RGB)", image.shape.channels);
  const ImageShape shape = plan.output_shape(image.shape);
  Tensor out = Tensor::empty({shape.channels, shape.height, shape.width}, f32, Device::cpu());
  TransformScratch scratch;
  plan.apply(image, key, {.shape = shape, .floats = out.data<float>()}, scratch);
  return out;
}

}  // namespace brim::data
