// How Winograd's F(4 x 4, 3 x 3) cuts images into tiles: 6 x 6 inputs of 4 x 4 outputs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::cpu {

constexpr int kWinogradIn = 6, kWinogradOut = 4, kWinogradTaps = 9;
constexpr int kWinogradPoints = kWinogradIn * kWinogradIn;

// In 8-bit integers (backend/cpu/int8/int8_winograd.h).
/// What inputs are moved by, so that their transforms are small: sums are those of x - 128.
constexpr int kWinogradShift = 128;
/// Largest sum of the magnitudes of an output's weights: sums of x - 128 are of 26 bits then, with
/// their sign.
constexpr int64_t kMaxWinogradWeights = ((int64_t{1} << 25) - 1) / kWinogradShift;

/// The part of a tile that lies in the image.
struct Patch {
  int y0, y1, x0, x1;
  Patch(int64_t y, int64_t x, int64_t h, int64_t w, int size)
      : y0(clip(-y, size)), y1(clip(h - y, size)), x0(clip(-x, size)), x1(clip(w - x, size)) {}
  bool whole(int size) const { return y0 == 0 && x0 == 0 && y1 == size && x1 == size; }
  bool has(int y, int x) const { return y >= y0 && y < y1 && x >= x0 && x < x1; }
  static int clip(int64_t at, int size) {
    return static_cast<int>(std::clamp<int64_t>(at, 0, size));
  }
};

/// Convolution of (n, h, w) pixels to (n, oh, ow); the first tile begins `top` and `left` of the
/// image.
struct WinogradTiles {
  int64_t n, h, w, oh, ow, top, left;

  int64_t rows() const { return (oh + kWinogradOut - 1) / kWinogradOut; }
  int64_t columns() const { return (ow + kWinogradOut - 1) / kWinogradOut; }
  int64_t count() const { return n * rows() * columns(); }

  struct Place {
    int64_t image, y, x;  // of the tile's first output
  };
  Place place(int64_t tile) const {
    return {tile / (rows() * columns()), tile / columns() % rows() * kWinogradOut,
            tile % columns() * kWinogradOut};
  }
  /// Where the first input of a tile is, maybe outside of the images; in pixels.
  int64_t first_input(const Place& p) const { return (p.image * h + p.y - top) * w + p.x - left; }
  int64_t first_output(const Place& p) const { return (p.image * oh + p.y) * ow + p.x; }
  Patch inputs(const Place& p) const { return {p.y - top, p.x - left, h, w, kWinogradIn}; }
  Patch outputs(const Place& p) const { return {p.y, p.x, oh, ow, kWinogradOut}; }
};

}  // namespace brim::cpu
