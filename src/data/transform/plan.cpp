// Crops and flips only move a window over the source, so they cost nothing: pixels are touched by
// resizes and by the final pass to float.
#include "data/transform/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "data/keyed.h"
#include "data/transform/resample.h"

namespace brim::data {
namespace {

// A window over a picture, perhaps mirrored. Outside `valid` there is `fill` instead of pixels.
struct Window {
  ImageView image;
  Box box;    // may reach over `valid` on any side
  Box valid;  // inside the picture
  bool flip = false;
  uint8_t fill = 0;

  explicit Window(const ImageView& view)
      : image(view), box{0, 0, view.shape.width, view.shape.height}, valid(box) {}

  bool plain() const { return !flip && !padded(); }
  bool padded() const {
    return box.x < valid.x || box.y < valid.y || box.x + box.width > valid.x + valid.width ||
           box.y + box.height > valid.y + valid.height;
  }

  // Takes height x width at (x, y) of what is seen now; (x, y) may be negative.
  void crop(int x, int y, int height, int width) {
    const int from = flip ? box.width - x - width : x;
    const int left = std::max(valid.x, box.x), top = std::max(valid.y, box.y);
    const int right = std::min(valid.x + valid.width, box.x + box.width);
    const int bottom = std::min(valid.y + valid.height, box.y + box.height);
    valid = {left, top, std::max(0, right - left), std::max(0, bottom - top)};
    box = {box.x + from, box.y + y, width, height};
  }

  // Part [first, last) of a row of the window that has pixels, in source order.
  void span(int& first, int& last) const {
    first = std::clamp(valid.x - box.x, 0, box.width);
    last = std::clamp(valid.x + valid.width - box.x, first, box.width);
  }
  bool has_row(int y) const { return box.y + y >= valid.y && box.y + y < valid.y + valid.height; }
};

// Copies what the window shows into an interleaved picture.
void materialise(const Window& window, Image& out) {
  out.width = window.box.width;
  out.height = window.box.height;
  out.channels = window.image.shape.channels;
  out.pixels.assign(static_cast<size_t>(out.shape().bytes()), window.fill);
  int first, last;
  window.span(first, last);
  for (int y = 0; y < out.height; ++y) {
    if (!window.has_row(y)) continue;
    for (int x = first; x < last; ++x) {
      const int to = window.flip ? out.width - 1 - x : x;
      for (int c = 0; c < out.channels; ++c) {
        out.pixels[(static_cast<size_t>(y) * out.width + to) * out.channels + c] =
            window.image.at(c, window.box.y + y, window.box.x + x);
      }
    }
  }
}

// One row of one channel: table look-ups are exact and leave no rounding to the compiler. `step_to`
// is -1 for a mirrored row. Four at a time, for one look-up is as short as the loop's own work.
template <int step_to>
void look_up(const uint8_t* from, int step, int count, const float* table, float* to) {
  int x = 0;
  for (; x + 4 <= count; x += 4, from += 4 * step, to += 4 * step_to) {
    const float a = table[from[0]], b = table[from[step]];
    const float c = table[from[2 * step]], d = table[from[3 * step]];
    to[0] = a, to[step_to] = b, to[2 * step_to] = c, to[3 * step_to] = d;
  }
  for (; x < count; ++x, from += step, to += step_to) *to = table[*from];
}

void convert_row(const uint8_t* from, int step, int count, bool flip, const float* table,
                 float* to) {
  if (flip) return look_up<-1>(from, step, count, table, to + count - 1);
  if (step == 1) return look_up<1>(from, 1, count, table, to);
  look_up<1>(from, step, count, table, to);
}

int side_or(int width, int height) { return width == 0 ? height : width; }

// Height and width after a Resize, which may be more than an int holds.
std::pair<int64_t, int64_t> resized(const Resize& step, int64_t height, int64_t width) {
  if (step.width != 0) return {step.height, step.width};
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
  constexpr int kMost = 1 << 15;
  const auto side = [&](const char* name, int height, int width) {
    BRIM_CHECK(height > 0 && width >= 0 && height <= kMost && width <= kMost, ValueError,
               "[{}] height {} and width {}: must be 1 to {} (width 0: as height)", name, height,
               width, kMost);
  };
  if (const auto* resize = std::get_if<Resize>(&step))
    side("Resize", resize->height, resize->width);
  if (const auto* crop = std::get_if<CenterCrop>(&step))
    side("CenterCrop", crop->height, crop->width);
  if (const auto* crop = std::get_if<RandomCrop>(&step)) {
    side("RandomCrop", crop->height, crop->width);
    BRIM_CHECK(crop->padding >= 0 && crop->padding <= kMost, ValueError,
               "[RandomCrop] padding {}: must be 0 to {}", crop->padding, kMost);
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
    for (int x = 0; x < 256; ++x)
      table_[c][x] = (static_cast<float>(x) / 255.0f - mean[c]) / std[c];
  }
}

const CenterCrop* TransformPlan::crop_after(size_t step) const {
  return step + 1 < steps_.size() ? std::get_if<CenterCrop>(&steps_[step + 1]) : nullptr;
}

ImageShape TransformPlan::output_shape(ImageShape in) const {
  ImageShape shape = in;
  for (size_t i = 0; i < steps_.size(); ++i) {
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
    }
    shape.channels = 3;
  }
  return shape;
}

void TransformPlan::apply(const ImageView& image, uint64_t key, ImageShape expected, float* out,
                          TransformScratch& scratch) const {
  Window window(image);
  KeyedRandom random(key);
  Image* spare = &scratch.first;
  // Makes the window a picture of its own, in the buffer that the window does not look at.
  const auto settle = [&] {
    materialise(window, *spare);
    window = Window(*spare);
    spare = spare == &scratch.first ? &scratch.second : &scratch.first;
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
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
    } else {
      const bool flip = random.unit() < std::get<HorizontalFlip>(step).p;
      window.flip = window.flip != flip;
    }
  }

  const int height = window.box.height, width = window.box.width;
  const ImageShape shape{window.image.shape.channels, height, width};
  BRIM_CHECK(
      shape == expected, ShapeError,
      "the picture is {} x {} x {} but the batch holds {} x {} x {}; add a Resize or CenterCrop",
      shape.channels, height, width, expected.channels, expected.height, expected.width);
  const bool planes = window.image.order == PixelOrder::chw;
  const int step = planes ? 1 : shape.channels;
  const int64_t row_bytes = int64_t{step} * window.image.shape.width;
  const int64_t plane_bytes = planes ? row_bytes * window.image.shape.height : 1;
  int first, last;
  window.span(first, last);
  const bool cut = first > 0 || last < width;
  for (int c = 0; c < shape.channels; ++c) {
    const float* const table = table_[c].data();
    const uint8_t* const plane = window.image.pixels + c * plane_bytes;
    for (int y = 0; y < height; ++y, out += width) {
      const bool there = window.has_row(y);
      if (cut || !there) std::fill_n(out, width, table[window.fill]);
      if (!there) continue;
      const uint8_t* const row =
          plane + (window.box.y + y) * row_bytes + (int64_t{window.box.x} + first) * step;
      convert_row(row, step, last - first, window.flip, table,
                  out + (window.flip ? width - last : first));
    }
  }
}

Tensor to_tensor(const ImageView& image, const Transform& transform, uint64_t key) {
  const TransformPlan plan(transform);
  BRIM_CHECK(image.shape.channels == 3, ShapeError,
             "[to_tensor] a picture of {} channels; expected 3 (RGB)", image.shape.channels);
  const ImageShape shape = plan.output_shape(image.shape);
  Tensor out = Tensor::empty({shape.channels, shape.height, shape.width});
  TransformScratch scratch;
  plan.apply(image, key, shape, out.data<float>(), scratch);
  return out;
}

}  // namespace brim::data
