#include "data/source/shapes_draw.h"

#include <cstring>
#include <utility>

namespace brim::data::drawing {
namespace {

constexpr int kContrast = 70;  // least difference of brightness to the background
constexpr int kShade = 30;     // half range of the slope of the background
constexpr int kNoise = 40;     // half range of the noise
constexpr int kTilt = 600;     // tangent of the largest rotation, in 1/1024

Colour colour_beside(const Colour& back, KeyedRandom& random) {
  for (;;) {
    const Colour colour = random_colour(random);
    if (std::abs(luma(colour) - luma(back)) >= kContrast) return colour;
  }
}

Colour draw_background(const Canvas& canvas, KeyedRandom& random) {
  const Colour back = random_colour(random);
  const int right = random.uniform(-kShade, kShade), down = random.uniform(-kShade, kShade);
  fill_slope(canvas, back, right, down);
  return back;
}

void draw_shape(const Canvas& canvas, Kind kind, int x, int y, int radius, const Colour& back,
                KeyedRandom& random) {
  const int tangent = random.uniform(-kTilt, kTilt);
  paint_shape(canvas, kind, turned(x, y, radius, tangent), colour_beside(back, random));
}

}  // namespace

void draw_masked(uint64_t seed, int split, int64_t index, uint8_t* pixels, uint8_t* mask) {
  KeyedRandom random(
      key64(seed, 0x6d61736b, static_cast<uint64_t>(split), static_cast<uint64_t>(index)));
  Canvas canvas{.pixels = pixels, .side = kMaskSide, .mask = mask};
  std::memset(mask, 0, static_cast<size_t>(canvas.count()));
  const Colour back = draw_background(canvas, random);
  constexpr int kShapes = 3, kTries = 20, kGap = kOne;
  std::array<Place, kShapes> placed{};
  const int shapes = random.uniform(1, kShapes);
  int count = 0;
  for (int tries = 0; count < shapes && tries < kTries; ++tries) {
    const int radius = random.uniform(8 * kOne, 14 * kOne);
    const int x = random.uniform(radius, kMaskSide * kOne - radius);
    const int y = random.uniform(radius, kMaskSide * kOne - radius);
    bool free = true;
    for (int i = 0; i < count; ++i) {
      const int64_t dx = x - placed[i].x, dy = y - placed[i].y;
      const int64_t apart = radius + placed[i].radius + kGap;
      free = free && dx * dx + dy * dy > apart * apart;
    }
    if (!free) continue;
    placed[count++] = {x, y, radius};
    const int kind = random.uniform(0, static_cast<int>(kMaskKinds.size()) - 1);
    canvas.value = static_cast<uint8_t>(kind + 1);
    draw_shape(canvas, kMaskKinds[static_cast<size_t>(kind)], x, y, radius, back, random);
  }
  add_noise(canvas, kNoise, random);
}

void draw_labelled(uint64_t seed, int split, int64_t index, uint8_t* pixels,
                   std::array<bool, kLabelKinds.size()>& present) {
  KeyedRandom random(
      key64(seed, 0x6c61626c, static_cast<uint64_t>(split), static_cast<uint64_t>(index)));
  const Canvas canvas{.pixels = pixels, .side = kLabelSide};
  const Colour back = draw_background(canvas, random);
  constexpr int kQuarters = 4, kQuarter = kLabelSide / 2 * kOne;
  std::array<int, kLabelKinds.size()> kinds{};
  for (size_t k = 0; k < kinds.size(); ++k) kinds[k] = static_cast<int>(k);
  present.fill(false);
  const int shapes = random.uniform(0, kQuarters);
  const int first = random.uniform(0, kQuarters - 1);
  for (int i = 0; i < shapes; ++i) {
    std::swap(kinds[i], kinds[random.uniform(i, static_cast<int>(kinds.size()) - 1)]);
    present[kinds[i]] = true;
    const int quarter = (first + i) % kQuarters;
    const int radius = random.uniform(6 * kOne, 8 * kOne);
    const int x = kQuarter * (quarter % 2) + kQuarter / 2 + random.uniform(-kOne / 2, kOne / 2);
    const int y = kQuarter * (quarter / 2) + kQuarter / 2 + random.uniform(-kOne / 2, kOne / 2);
    draw_shape(canvas, kLabelKinds[kinds[i]], x, y, radius, back, random);
  }
  add_noise(canvas, kNoise, random);
}

}  // namespace brim::data::drawing
