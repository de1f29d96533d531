// shapes10's painter. A shape is a signed distance in 1/256 pixel (negative inside); coverage is
// the distance clamped over one pixel, which anti-aliases every edge. No floating point anywhere.
#include "data/source/shapes10_draw.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "data/keyed.h"

namespace brim::data::shapes10 {

const char* const kNames[kClasses] = {"bars",  "chevron", "circle", "crescent", "cross",
                                      "frame", "ring",    "square", "star",     "triangle"};

namespace {

// Chosen so that the tutorial network (conv 6, conv 16, fc 120-84-10; SGD 0.001, momentum 0.9,
// batch 4) reaches 70 to 86 % in two epochs and a linear classifier stays below 25 %.
constexpr int kOne = 256;                        // one pixel
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

enum Kind { kBars, kChevron, kCircle, kCrescent, kCross, kFrame, kRing, kSquare, kStar, kTriangle };

struct Colour {
  int c[3];
};

// Integer square root, rounded down.
int isqrt(int64_t v) {
  int64_t r = 0;
  for (int64_t bit = int64_t{1} << 31; bit > 0; bit >>= 1) {
    if ((r + bit) * (r + bit) <= v) r += bit;
  }
  return static_cast<int>(r);
}

// Distance to a circle around the origin, exact near its edge: (d^2 - r^2) / 2r.
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

int box(int u, int v, int a, int b) { return std::max(std::abs(u) - a, std::abs(v) - b); }

// Paints `colour` where `distance(u, v)` is negative; (u, v) are coordinates in the shape's turned
// frame.
template <class Distance>
void paint(uint8_t* out, int cx, int cy, int reach, int cosine, int sine, const Colour& colour,
           const Distance& distance) {
  const int x0 = std::max(0, (cx - reach) / kOne - 1),
            x1 = std::min(kSide - 1, (cx + reach) / kOne + 1);
  const int y0 = std::max(0, (cy - reach) / kOne - 1),
            y1 = std::min(kSide - 1, (cy + reach) / kOne + 1);
  for (int y = y0; y <= y1; ++y) {
    const int dy = y * kOne + kOne / 2 - cy;
    for (int x = x0; x <= x1; ++x) {
      const int dx = x * kOne + kOne / 2 - cx;
      const int u = (cosine * dx + sine * dy) >> 14;
      const int v = (cosine * dy - sine * dx) >> 14;
      const int cover = std::clamp(kOne / 2 - distance(u, v), 0, kOne);
      if (cover == 0) continue;
      for (int c = 0; c < 3; ++c) {
        uint8_t& p = out[c * kPixels + y * kSide + x];
        p = static_cast<uint8_t>(p + (((colour.c[c] - p) * cover) >> 8));
      }
    }
  }
}

void paint_shape(uint8_t* out, Kind kind, int cx, int cy, int r, int cosine, int sine,
                 const Colour& colour) {
  const auto go = [&](const auto& distance) {
    paint(out, cx, cy, r * 3 / 2, cosine, sine, colour, distance);
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

}  // namespace

void draw(uint64_t seed, int split, int64_t index, uint8_t* out) {
  KeyedRandom rng(
      key64(seed, 0x73686170, static_cast<uint64_t>(split), static_cast<uint64_t>(index)));
  const auto luma = [](const Colour& a) { return (2 * a.c[0] + 5 * a.c[1] + a.c[2]) >> 3; };
  const auto colour = [&] {
    return Colour{{rng.uniform(0, 255), rng.uniform(0, 255), rng.uniform(0, 255)}};
  };

  // Colours: any pair that differs enough in brightness.
  const bool dark = rng.uniform(0, 99) < kDark;
  Colour back = colour(), front = colour();
  while (true) {
    int d = luma(front) - luma(back);
    if (dark) d = -d;
    if (d >= kContrast) break;
    back = colour(), front = colour();
  }

  // Background: a plane of brightness that slopes across the picture.
  const int sx = rng.uniform(-kShade, kShade), sy = rng.uniform(-kShade, kShade);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int slope = (sx * (2 * x - kSide + 1) + sy * (2 * y - kSide + 1)) >> 6;
      for (int c = 0; c < 3; ++c) {
        out[c * kPixels + y * kSide + x] =
            static_cast<uint8_t>(std::clamp(back.c[c] + slope, 0, 255));
      }
    }
  }

  // Distractors: small discs and dashes in colours of their own, behind the shape.
  const int blobs = rng.uniform(0, kBlobs);
  for (int i = 0; i < blobs; ++i) {
    Colour tint;
    for (int c = 0; c < 3; ++c) tint.c[c] = (back.c[c] + rng.uniform(0, 255)) / 2;
    const int x = rng.uniform(0, kSide * kOne), y = rng.uniform(0, kSide * kOne);
    const int size = rng.uniform(kOne, 2 * kOne + kOne / 2);
    if (rng.next() & 1) {
      paint(out, x, y, size, 16384, 0, tint, Disc(size));
    } else {
      paint(out, x, y, 3 * size, 11585, (rng.next() & 1) ? 11585 : -11585, tint,
            [size](int u, int v) { return box(u, v, 2 * size, size / 2); });
    }
  }

  const bool hard = rng.uniform(0, 99) < kHard;
  const int r = hard ? rng.uniform(kHardMin, kHardMax) : rng.uniform(kSizeMin, kSizeMax);
  const int cx = kSide * kOne / 2 + rng.uniform(-kJitter, kJitter);
  const int cy = kSide * kOne / 2 + rng.uniform(-kJitter, kJitter);
  const int t = rng.uniform(-kTilt, kTilt);
  const int length = isqrt(1024 * 1024 + t * t);
  const int cosine = 1024 * 16384 / length, sine = t * 16384 / length;
  paint_shape(out, static_cast<Kind>(label(index)), cx, cy, r, cosine, sine, front);

  const int amplitude = hard ? kHardNoise : kNoise;
  std::array<int8_t, 3 * kPixels> noise;
  for (int i = 0; i < 3 * kPixels; i += 8) {
    uint64_t word = rng.next();
    for (int k = 0; k < 8; ++k, word >>= 8) noise[i + k] = static_cast<int8_t>(word & 255);
  }
  for (int i = 0; i < 3 * kPixels; ++i) {
    out[i] = static_cast<uint8_t>(std::clamp(out[i] + ((noise[i] * amplitude) >> 7), 0, 255));
  }
}

}  // namespace brim::data::shapes10
