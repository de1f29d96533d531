#include "data/transform/steps.h"

#include <brim/data/pictures.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "data/transform/random_resized_crop.h"
#include "data/transform/resample.h"
#include "formula/resample.h"

namespace brim::data {
namespace {

// Height and width after a Resize, which may be more than an int holds.
std::pair<int64_t, int64_t> resized(const Resize& step, int64_t height, int64_t width) {
  if (step.width != 0) return {step.height, step.width};
  BRIM_CHECK(height > 0 && width > 0, ShapeError,
             "a picture of width {} and height {} cannot be resized", width, height);
  const int64_t side = step.height;
  if (height <= width) return {side, side * width / height};
  return {side * height / width, side};
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

Steps::Steps(std::vector<TransformStep> steps) : steps_(std::move(steps)) {
  for (const TransformStep& step : steps_) check_step(step);
}

const CenterCrop* Steps::crop_after(size_t step) const {
  return step + 1 < steps_.size() ? std::get_if<CenterCrop>(&steps_[step + 1]) : nullptr;
}

ImageShape Steps::shape_after(size_t end, ImageShape in) const {
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
  }
  return shape;
}

template <class T>
BasicWindow<T> Steps::place(size_t first, size_t end, BasicWindow<T> window, KeyedRandom& random,
                            StepBuffers<T>& buffers, Content content) const {
  const bool mask = content == Content::mask;
  const Filter filter = mask ? Filter::nearest : Filter::bilinear;
  // What crops show outside; full brightness is 255 in steps.
  const auto outside = [mask](uint8_t fill) {
    constexpr int kScale = std::numeric_limits<T>::max() / 255;
    return static_cast<T>(mask ? kIgnoredClass : fill * kScale);
  };
  const bool taken = window.image.pixels == buffers.first.pixels.data();
  BasicImage<T>* spare = taken ? &buffers.second : &buffers.first;
  const auto show_spare = [&] {
    window = BasicWindow<T>(*spare);
    spare = spare == &buffers.first ? &buffers.second : &buffers.first;
  };
  // Makes the window a picture of its own, in the buffer that the window does not look at.
  const auto settle = [&] {
    materialise(window, *spare);
    show_spare();
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
      const int64_t y = formula::centred(height, tall), x = formula::centred(width, wide);
      const int64_t top = std::max<int64_t>(y, 0), left = std::max<int64_t>(x, 0);
      const int64_t bottom = std::min(y + tall, height), right = std::min(x + wide, width);
      check_pixels(bottom - top, right - left);
      resample(window.image, window.box, height, width,
               {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left),
                static_cast<int>(bottom - top)},
               *spare, filter);
      show_spare();
      if (crop == nullptr) continue;
      window.fill = outside(0);
      window.crop(static_cast<int>(x - left), static_cast<int>(y - top), static_cast<int>(tall),
                  static_cast<int>(wide));
      ++i;  // the crop is done
    } else if (const auto* centre = std::get_if<CenterCrop>(&step)) {
      const int height = centre->height, width = side_or(centre->width, height);
      if (window.padded()) settle();
      window.fill = outside(0);
      window.crop(static_cast<int>(formula::centred(window.box.width, width)),
                  static_cast<int>(formula::centred(window.box.height, height)), height, width);
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
      window.fill = outside(crop->fill);
      const int y = random.uniform(0, spare_y), x = random.uniform(0, spare_x);
      window.crop(x - padding, y - padding, height, width);
    } else if (const auto* part = std::get_if<RandomResizedCrop>(&step)) {
      if (!window.plain()) settle();
      Box box = choose_part(*part, window.box.width, window.box.height, random);
      box.x += window.box.x, box.y += window.box.y;
      const int height = part->height, width = side_or(part->width, height);
      resample(window.image, box, height, width, {0, 0, width, height}, *spare, filter);
      show_spare();
    } else {
      const bool flip = random.unit() < std::get<HorizontalFlip>(step).p;
      window.flip = window.flip != flip;
    }
  }
  return window;
}

template Window Steps::place(size_t, size_t, Window, KeyedRandom&, StepBuffers<uint8_t>&,
                             Content) const;
template Window16 Steps::place(size_t, size_t, Window16, KeyedRandom&, StepBuffers<uint16_t>&,
                               Content) const;

}  // namespace brim::data
