#include "data/source/shapes10_draw.h"

#include "data/source/drawing.h"

namespace brim::data::shapes10 {
namespace {

using namespace drawing;

// Chosen so that the tutorial network (conv 6, conv 16, fc 120-84-10; SGD 0.001, momentum 0.9,
// batch 4) reaches 70 to 86 % in two epochs and a linear classifier stays below 25 %.
constexpr int kSizeMin = 2300, kSizeMax = 3300;  // circumradius
constexpr int kTilt = 600;                       // tangent of the largest rotation, in 1/1024
constexpr int kJitter = 1150;                    // largest distance from the middle, per axis
constexpr int kContrast = 130;                   // least difference of brightness to the background
constexpr int kDark = 38;                        // percentage of dark shapes on light ground
constexpr int kShade = 30;                       // half range of the slope of the background
constexpr int kBlobs = 3;                        // most distractors
constexpr int kNoise = 32;                       // half range of the noise
constexpr int kHard = 12, kHardNoise = 80;       // percentage of small and noisy pictures, and
constexpr int kHardMin = 1000, kHardMax = 1500;  // their noise and sizes

}  // namespace

void draw(uint64_t seed, int split, int64_t index, uint8_t* out) {
  KeyedRandom rng(
      key64(seed, 0x73686170, static_cast<uint64_t>(split), static_cast<uint64_t>(index)));
  const auto colour = [&] { return random_colour(rng); };
  const Canvas canvas{.pixels = out, .side = kSide};

  // Colours: any pair that differs enough in brightness.
  const bool dark = rng.uniform(0, 99) < kDark;
  Colour back = colour(), front = colour();
  while (true) {
    int d = luma(front) - luma(back);
    if (dark) d = -d;
    if (d >= kContrast) break;
    back = colour(), front = colour();
  }

  const int right = rng.uniform(-kShade, kShade), down = rng.uniform(-kShade, kShade);
  fill_slope(canvas, back, right, down);

  // Distractors: small discs and dashes in colours of their own, behind the shape.
  const int blobs = rng.uniform(0, kBlobs);
  for (int i = 0; i < blobs; ++i) {
    Colour tint;
    for (int c = 0; c < 3; ++c) tint.c[c] = (back.c[c] + rng.uniform(0, 255)) / 2;
    const int x = rng.uniform(0, kSide * kOne), y = rng.uniform(0, kSide * kOne);
    const int size = rng.uniform(kOne, 2 * kOne + kOne / 2);
    if (rng.next() & 1) {
      paint(canvas, {x, y, size}, tint, Disc(size));
    } else {
      const int sine = (rng.next() & 1) ? 11585 : -11585;
      paint(canvas, {x, y, 3 * size, 11585, sine}, tint,
            [size](int u, int v) { return box(u, v, 2 * size, size / 2); });
    }
  }

  const bool hard = rng.uniform(0, 99) < kHard;
  const int r = hard ? rng.uniform(kHardMin, kHardMax) : rng.uniform(kSizeMin, kSizeMax);
  const int cx = kSide * kOne / 2 + rng.uniform(-kJitter, kJitter);
  const int cy = kSide * kOne / 2 + rng.uniform(-kJitter, kJitter);
  const int t = rng.uniform(-kTilt, kTilt);
  paint_shape(canvas, static_cast<Kind>(label(index)), turned(cx, cy, r, t), front);
  add_noise(canvas, hard ? kHardNoise : kNoise, rng);
}

}  // namespace brim::data::shapes10
