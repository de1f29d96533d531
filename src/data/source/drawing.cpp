#include "data/source/drawing.h"

#include <bit>

namespace brim::data::drawing {

const char* const kKindNames[10] = {"bars",  "chevron", "circle", "crescent", "cross",
                                    "frame", "ring",    "square", "star",     "triangle"};

namespace {

// Integer square root, rounded down.
int isqrt(int64_t v) {
  int64_t r = 0;
  for (int64_t bit = int64_t{1} << 31; bit > 0; bit >>= 1) {
    if ((r + bit) * (r + bit) <= v) r += bit;
  }
  return static_cast<int>(r);
}

}  // namespace

Place turned(int x, int y, int radius, int tangent) {
  const int length = isqrt(1024 * 1024 + tangent * tangent);
  return {x, y, radius, 1024 * 16384 / length, tangent * 16384 / length};
}

void paint_shape(const Canvas& to, Kind kind, const Place& at, const Colour& colour) {
  const int r = at.radius;
  const auto go = [&](const auto& distance) {
    Place reach = at;
    reach.radius = r * 3 / 2;
    paint(to, reach, colour, distance);
  };
  switch (kind) {
    case kBars:
      return go([g = r / 2, t = r / 5, l = r * 9 / 10](int u, int v) {
        return std::max(std::abs(std::abs(u) - g) - t, std::abs(v) - l);
      });
    case kChevron:  // two strokes that meet at the top, 45 degrees each
      return go([r, t = r / 4](int u, int v) {
        const int s = ((std::abs(u) + v) * 724) >> 10;
        return std::max(std::abs(s - r / 4) - t, std::abs(u) - r * 9 / 10);
      });
    case kCircle:
      return go(Disc(r * 17 / 20));
    case kCrescent:
      return go([outer = Disc(r * 9 / 10), inner = Disc(r * 7 / 10), shift = r * 11 / 20](
                    int u, int v) { return std::max(outer(u, v), -inner(u - shift, v)); });
    case kCross:
      return go([a = r * 9 / 10, b = r * 3 / 10](int u, int v) {
        return std::min(box(u, v, a, b), box(u, v, b, a));
      });
    case kFrame:
      return go(
          [a = r * 13 / 20, t = r / 7](int u, int v) { return std::abs(box(u, v, a, a)) - t; });
    case kRing:
      return go(
          [mid = Disc(r * 7 / 10), t = r / 6](int u, int v) { return std::abs(mid(u, v)) - t; });
    case kSquare:
      return go([a = r * 15 / 20](int u, int v) { return box(u, v, a, a); });
    case kStar:  // inside at least four of the five lines of a pentagram: the second largest
                 // distance
      return go([h = r * 39 / 100](int u, int v) {
        constexpr int kNormal[5][2] = {
            {0, 16384}, {15582, 5063}, {9630, -13255}, {-9630, -13255}, {-15582, 5063}};
        int first = -1 << 28, second = -1 << 28;
        for (const auto& n : kNormal) {
          const int d = ((n[0] * u + n[1] * v) >> 14) - h;
          second = std::max(second, std::min(first, d));
          first = std::max(first, d);
        }
        return second;
      });
    case kTriangle:
      return go([r, h = r / 2](int u, int v) {
        const int w = v - h + r / 10;
        return std::max(w, ((std::abs(u) * 14189 - v * 8192) >> 14) - h + r / 10);
      });
  }
}

void fill_slope(const Canvas& to, const Colour& colour, int right, int down) {
  const int side = to.side, shift = std::countr_zero(static_cast<unsigned>(2 * side));
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const int slope = (right * (2 * x - side + 1) + down * (2 * y - side + 1)) >> shift;
      for (int c = 0; c < 3; ++c)
        to.pixels[c * to.count() + y * side + x] =
            static_cast<uint8_t>(std::clamp(colour.c[c] + slope, 0, 255));
    }
  }
}

void add_noise(const Canvas& to, int amplitude, KeyedRandom& random) {
  for (int i = 0; i < 3 * to.count(); i += 8) {
    uint64_t word = random.next();
    for (int k = 0; k < 8; ++k, word >>= 8) {
      const int noise = static_cast<int8_t>(word & 255);
      uint8_t& p = to.pixels[i + k];
      p = static_cast<uint8_t>(std::clamp(p + ((noise * amplitude) >> 7), 0, 255));
    }
  }
}

}  // namespace brim::data::drawing
