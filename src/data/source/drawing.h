// What the built-in pictures are drawn with. A shape is a signed distance in 1/256 pixel (negative
// inside); coverage is the distance clamped over one pixel, which anti-aliases every edge. Integer
// arithmetic only, so the pixels are the same on every machine and compiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "data/keyed.h"

namespace brim::data::drawing {

inline constexpr int kOne = 256;  // one pixel

enum Kind { kBars, kChevron, kCircle, kCrescent, kCross, kFrame, kRing, kSquare, kStar, kTriangle };

/// Names by Kind.
extern const char* const kKindNames[10];

struct Colour {
  int c[3];
};

inline int luma(const Colour& a) { return (2 * a.c[0] + 5 * a.c[1] + a.c[2]) >> 3; }

inline Colour random_colour(KeyedRandom& random) {
  const int red = random.uniform(0, 255), green = random.uniform(0, 255);
  return {{red, green, random.uniform(0, 255)}};
}

/// A square picture of three planes. A power of two is its side.
struct Canvas {
  uint8_t* pixels;
  int side;
  /// Where a shape covers half a pixel or more, its mask gets `value`; null for none.
  uint8_t* mask = nullptr;
  uint8_t value = 0;

  int count() const { return side * side; }
};

/// Where a shape lies and how it is turned: centre and radius in 1/256 pixel, a cosine and a sine
/// in 1/16384.
struct Place {
  int x, y, radius, cosine = 16384, sine = 0;
};

/// Turned by the angle whose tangent is `tangent`/1024.
Place turned(int x, int y, int radius, int tangent);

/// Distance to a circle around the origin, exact near its edge: (d^2 - r^2) / 2r.
class Disc {
 public:
  explicit Disc(int r) : r2_(r * r), reach_(4 * kOne * r), inverse_((1 << 22) / (2 * r)) {}
  int operator()(int u, int v) const {
    const int q = std::clamp(u * u + v * v - r2_, -reach_, reach_);
    return static_cast<int>((static_cast<int64_t>(q) * inverse_) >> 22);
  }

 private:
  int r2_, reach_, inverse_;
};

inline int box(int u, int v, int a, int b) { return std::max(std::abs(u) - a, std::abs(v) - b); }

/// Paints `colour` where `distance(u, v)` is negative; (u, v) are coordinates in the shape's turned
/// frame. Nothing lies further than the place's radius from its centre, along each axis.
template <class Distance>
void paint(const Canvas& to, const Place& at, const Colour& colour, const Distance& distance) {
  const int last = to.side - 1;
  const int x0 = std::max(0, (at.x - at.radius) / kOne - 1),
            x1 = std::min(last, (at.x + at.radius) / kOne + 1);
  const int y0 = std::max(0, (at.y - at.radius) / kOne - 1),
            y1 = std::min(last, (at.y + at.radius) / kOne + 1);
  for (int y = y0; y <= y1; ++y) {
    const int dy = y * kOne + kOne / 2 - at.y;
    for (int x = x0; x <= x1; ++x) {
      const int dx = x * kOne + kOne / 2 - at.x;
      const int u = (at.cosine * dx + at.sine * dy) >> 14;
      const int v = (at.cosine * dy - at.sine * dx) >> 14;
      const int cover = std::clamp(kOne / 2 - distance(u, v), 0, kOne);
      if (cover == 0) continue;
      const int pixel = y * to.side + x;
      for (int c = 0; c < 3; ++c) {
        uint8_t& p = to.pixels[c * to.count() + pixel];
        p = static_cast<uint8_t>(p + (((colour.c[c] - p) * cover) >> 8));
      }
      if (to.mask != nullptr && cover >= kOne / 2) to.mask[pixel] = to.value;
    }
  }
}

void paint_shape(const Canvas& to, Kind kind, const Place& at, const Colour& colour);

/// A plane of brightness that slopes across the picture, by up to `right` and `down` at its edges.
void fill_slope(const Canvas& to, const Colour& colour, int right, int down);

/// Noise of at most `amplitude` on every sample.
void add_noise(const Canvas& to, int amplitude, KeyedRandom& random);

}  // namespace brim::data::drawing
