// Crops and flips only move a window over the source, so they cost nothing: pixels are touched by
// resizes and by the final pass to float.
#include "data/transform/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/check.h"
#include "data/image/decode.h"
#include "data/image/jpeg.h"
#include "data/keyed.h"
#include "data/transform/random_resized_crop.h"
#include "data/transform/resample.h"
#include "data/transform/to_float.h"
#include "data/transform/window.h"
#include "diag/span.h"

namespace brim::data {
namespace {

int side_or(int width, int height) { return width == 0 ? height : width; }

// Height and width after a Resize, which may be more than an int holds.
std::pair<int64_t, int64_t> resized(const Resize& step, int64_t height, int64_t width) {
  if (step.width != 0) return {step.height, step.width};
  BRIM_CHECK(height > 0 && width > 0, ShapeError,
             "a picture of width {} and height {} cannot be resized", width, height);
  const int64_t side = step.height;
  if (height <= width) return {side, side * width / height};
  return {side * height / width, side};
}

// Where a CenterCrop begins along one axis. Half a pixel goes where torchvision puts it: to even
// inside, to the right outside.
int64_t middle(int64_t have, int64_t want) {
  if (have < want) return -((want - have) / 2);
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(have - want) / 2.0));
}

void check_pixels(int64_t height, int64_t width) {
  BRIM_CHECK(width <= kMaxPixels / height, FileError,
             "resized to {} x {} the picture has more than {} pixels; crop it, or put a CenterCrop "
             "behind the Resize",
             width, height, kMaxPixels);
}

void check_step(const TransformStep& step) {
  constexpr int kMax = 1 << 15;
  const auto side = [&](const char* name, int height, int width) {
    BRIM_CHECK(height > 0 && width >= 0 && height <= kMax && width <= kMax, ValueError,
               "[{}] height {} and width {}: must be 1 to {} (width 0: as height)", name, height,
               width, kMax);
  };
  if (const auto* resize = std::get_if<Resize>(&step))
    side("Resize", resize->height, resize->width);
  if (const auto* crop = std::get_if<CenterCrop>(&step))
    side("CenterCrop", crop->height, crop->width);
  if (const auto* crop = std::get_if<RandomCrop>(&step)) {
    side("RandomCrop", crop->height, crop->width);
    BRIM_CHECK(crop->padding >= 0 && crop->padding <= kMax, ValueError,
               "[RandomCrop] padding {}: must be 0 to {}", crop->padding, kMax);
  }
  if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) {
    side("RandomResizedCrop", crop->height, crop->width);
    const auto [least, most] = crop->scale;
    BRIM_CHECK(least > 0 && least <= most && most <= 1, ValueError,
               "[RandomResizedCrop] scale {} to {}: must be above 0, at most 1 and in order", least,
               most);
    const auto [narrowest, widest] = crop->ratio;
    BRIM_CHECK(narrowest >= 1e-3 && narrowest <= widest && widest <= 1e3, ValueError,
               "[RandomResizedCrop] ratio {} to {}: must be 0.001 to 1000 and in order", narrowest,
               widest);
  }
  if (const auto* flip = std::get_if<HorizontalFlip>(&step)) {
    BRIM_CHECK(flip->p >= 0 && flip->p <= 1, ValueError, "[HorizontalFlip] p {}: must be 0 to 1",
               flip->p);
  }
}

}  // namespace

TransformPlan::TransformPlan(const Transform& transform) : steps_(transform.steps) {
  for (const TransformStep& step : steps_) check_step(step);
  const auto& [mean, std] = transform.normalize;
  BRIM_CHECK(mean.size() == 3 && std.size() == 3, ValueError,
             "[Normalize] {} means and {} stds; RGB pictures need 3 of each", mean.size(),
             std.size());
  for (size_t c = 0; c < 3; ++c) {
    BRIM_CHECK(std::isfinite(mean[c]) && std::isfinite(std[c]) && std[c] > 0, ValueError,
               "[Normalize] mean {} and std {} of channel {}: the std must be above 0", mean[c],
               std[c], c);
    scales_[c] = ByteScale(mean[c], std[c]);
  }
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
  return std::any_of(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(last_part_),
                     [](const TransformStep& step) {
                       return !std::holds_alternative<Resize>(step) &&
                              !std::holds_alternative<CenterCrop>(step);
                     });
}

uint8_t TransformPlan::fill() const {
  for (size_t i = last_part_; i < steps_.size(); ++i)
    if (const auto* crop = std::get_if<RandomCrop>(&steps_[i])) return crop->fill;
  return 0;
}

const CenterCrop* TransformPlan::crop_after(size_t step) const {
  return step + 1 < steps_.size() ? std::get_if<CenterCrop>(&steps_[step + 1]) : nullptr;
}

ImageShape TransformPlan::output_shape(ImageShape in) const {
  return shape_after(steps_.size(), in);
}

ImageShape TransformPlan::shape_after(size_t end, ImageShape in) const {
  ImageShape shape = in;
  for (size_t i = 0; i < end; ++i) {
    const TransformStep& step = steps_[i];
    if (const auto* resize = std::get_if<Resize>(&step)) {
      if (resize->width == 0 && shape == ImageShape{}) continue;
      if (crop_after(i) != nullptr) continue;  // which alone decides the shape
      const auto [height, width] = resized(*resize, shape.height, shape.width);
      check_pixels(height, width);
      shape.height = static_cast<int>(height), shape.width = static_cast<int>(width);
    } else if (const auto* centre = std::get_if<CenterCrop>(&step)) {
      shape.height = centre->height, shape.width = side_or(centre->width, centre->height);
    } else if (const auto* crop = std::get_if<RandomCrop>(&step)) {
      shape.height = crop->height, shape.width = side_or(crop->width, crop->height);
    } else if (const auto* part = std::get_if<RandomResizedCrop>(&step)) {
      shape.height = part->height, shape.width = side_or(part->width, part->height);
    }
    shape.channels = 3;
  }
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
  const auto* crop = steps_.empty() ? nullptr : std::get_if<RandomResizedCrop>(&steps_[0]);
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
  with_name([&] { return name; },
            [&] {
              const int height = crop->height, width = side_or(crop->width, height);
              resample(scratch.decoded, area, height, width, {0, 0, width, height}, scratch.first);
              run(1, Window(scratch.first), random, out, scratch);
            });
}

Window TransformPlan::place(size_t first, size_t end, Window window, KeyedRandom& random,
                            TransformScratch& scratch) const {
  const bool taken = window.image.pixels == scratch.first.pixels.data();
  Image* spare = taken ? &scratch.second : &scratch.first;
  // Makes the window a picture of its own, in the buffer that the window does not look at.
  const auto settle = [&] {
    materialise(window, *spare);
    window = Window(*spare);
    spare = spare == &scratch.first ? &scratch.second : &scratch.first;
  };
  for (size_t i = first; i < end; ++i) {
    const TransformStep& step = steps_[i];
    if (const auto* resize = std::get_if<Resize>(&step)) {
      const auto [height, width] = resized(*resize, window.box.height, window.box.width);
      if (height == window.box.height && width == window.box.width) continue;
      if (!window.plain()) settle();
      // Only what a crop keeps is made, so an oblong picture costs no more than a square one.
      const CenterCrop* crop = crop_after(i);
      const int64_t tall = crop != nullptr ? crop->height : height;
      const int64_t wide = crop != nullptr ? side_or(crop->width, crop->height) : width;
      const int64_t y = middle(height, tall), x = middle(width, wide);
      const int64_t top = std::max<int64_t>(y, 0), left = std::max<int64_t>(x, 0);
      const int64_t bottom = std::min(y + tall, height), right = std::min(x + wide, width);
      check_pixels(bottom - top, right - left);
      resample(window.image, window.box, height, width,
               {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left),
                static_cast<int>(bottom - top)},
               *spare);
      window = Window(*spare);
      spare = spare == &scratch.first ? &scratch.second : &scratch.first;
      if (crop == nullptr) continue;
      window.crop(static_cast<int>(x - left), static_cast<int>(y - top), static_cast<int>(tall),
                  static_cast<int>(wide));
      ++i;  // the crop is done
    } else if (const auto* centre = std::get_if<CenterCrop>(&step)) {
      const int height = centre->height, width = side_or(centre->width, height);
      if (window.padded()) settle();
      window.fill = 0;
      window.crop(static_cast<int>(middle(window.box.width, width)),
                  static_cast<int>(middle(window.box.height, height)), height, width);
    } else if (const auto* crop = std::get_if<RandomCrop>(&step)) {
      const int height = crop->height, width = side_or(crop->width, height),
                padding = crop->padding;
      const int spare_y = window.box.height + 2 * padding - height;
      const int spare_x = window.box.width + 2 * padding - width;
      BRIM_CHECK(
          spare_y >= 0 && spare_x >= 0, ShapeError,
          "[RandomCrop] {} x {} of a picture of {} x {} with padding {}; pad or resize it first",
          height, width, window.box.height, window.box.width, padding);
      if (window.padded()) settle();
      window.fill = crop->fill;
      const int y = random.uniform(0, spare_y), x = random.uniform(0, spare_x);
      window.crop(x - padding, y - padding, height, width);
    } else if (const auto* part = std::get_if<RandomResizedCrop>(&step)) {
      if (!window.plain()) settle();
      Box box = choose_part(*part, window.box.width, window.box.height, random);
      box.x += window.box.x, box.y += window.box.y;
      resample(window.image, box, part->height, side_or(part->width, part->height), *spare);
      window = Window(*spare);
      spare = spare == &scratch.first ? &scratch.second : &scratch.first;
    } else {
      const bool flip = random.unit() < std::get<HorizontalFlip>(step).p;
      window.flip = window.flip != flip;
    }
  }
  return window;
}

void TransformPlan::run(size_t first_step, Window window, KeyedRandom random, const Output& out,
                        TransformScratch& scratch) const {
  window = place(first_step, out.floats ? steps_.size() : last_part_, window, random, scratch);
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
  const Window window = place(last_part_, steps_.size(), Window(nothing), random, scratch);
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
  Tensor out = Tensor::empty({shape.channels, shape.height, shape.width});
  TransformScratch scratch;
  plan.apply(image, key, {.shape = shape, .floats = out.data<float>()}, scratch);
  return out;
}

}  // namespace brim::data
