// The linear maps of Winograd's F(4 x 4, 3 x 3), over vectors of channels. Include it inside a
// foreach_target file only.
//
// y = A' [(G g G') * (B' d B)] A for a tile d of 6 x 6 inputs, weights g and 4 x 4 outputs y. The
// matrices follow from interpolation at the points of formula/winograd.h.
#if defined(BRIM_CONV_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CONV_WINOGRAD_INL_H_
#undef BRIM_CONV_WINOGRAD_INL_H_
#else
#define BRIM_CONV_WINOGRAD_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/conv/conv_epilogue.h"
#include "backend/cpu/conv/conv_tile-inl.h"
#include "backend/cpu/conv/winograd_tiles.h"
#include "formula/winograd.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int kIn = kWinogradIn, kOut = kWinogradOut, kTaps = kWinogradTaps;
constexpr int kPoints = kWinogradPoints;

using formula::winograd::kA;
using formula::winograd::kA2;
using formula::winograd::kB;
using formula::winograd::kB2;
using formula::winograd::kN0;
using formula::winograd::kNa;
using formula::winograd::kNb;

HWY_INLINE VecF constant(float x) { return hn::Set(TagF(), x); }

/// B' d: of 6 values.
HWY_INLINE void input_line(const VecF* d, VecF* r, int step) {
  const VecF a = constant(kA), b = constant(kB), a2 = constant(kA2), b2 = constant(kB2);
  const VecF both = constant(kA2 + kB2), product = constant(kN0);
  const VecF even_a = hn::NegMulAdd(b2, d[2], d[4]), odd_a = hn::NegMulAdd(b2, d[1], d[3]);
  const VecF even_b = hn::NegMulAdd(a2, d[2], d[4]), odd_b = hn::NegMulAdd(a2, d[1], d[3]);
  r[0] = hn::MulAdd(product, d[0], hn::NegMulAdd(both, d[2], d[4]));
  r[1 * step] = hn::MulAdd(a, odd_a, even_a);
  r[2 * step] = hn::NegMulAdd(a, odd_a, even_a);
  r[3 * step] = hn::MulAdd(b, odd_b, even_b);
  r[4 * step] = hn::NegMulAdd(b, odd_b, even_b);
  r[5 * step] = hn::MulAdd(product, d[1], hn::NegMulAdd(both, d[3], d[5]));
}

/// A' m: 4 outputs of 6 products.
HWY_INLINE void output_line(const VecF* m, VecF* y, int step) {
  const VecF a = constant(kA), b = constant(kB), a2 = constant(kA2), b2 = constant(kB2);
  const VecF p = hn::Add(m[1], m[2]), q = hn::Mul(a, hn::Sub(m[1], m[2]));
  const VecF r = hn::Add(m[3], m[4]), s = hn::Mul(b, hn::Sub(m[3], m[4]));
  y[0] = hn::Add(m[0], hn::Add(p, r));
  y[1 * step] = hn::Add(q, s);
  y[2 * step] = hn::MulAdd(a2, p, hn::Mul(b2, r));
  y[3 * step] = hn::MulAdd(a2, q, hn::MulAdd(b2, s, m[5]));
}

/// A y: 6 values of the gradients of 4 outputs.
HWY_INLINE void gradient_line(const VecF* y, VecF* r, int step) {
  const VecF a = constant(kA), b = constant(kB), a2 = constant(kA2), b2 = constant(kB2);
  const VecF even_a = hn::MulAdd(a2, y[2], y[0]), odd_a = hn::Mul(a, hn::MulAdd(a2, y[3], y[1]));
  const VecF even_b = hn::MulAdd(b2, y[2], y[0]), odd_b = hn::Mul(b, hn::MulAdd(b2, y[3], y[1]));
  r[0] = y[0];
  r[1 * step] = hn::Add(even_a, odd_a);
  r[2 * step] = hn::Sub(even_a, odd_a);
  r[3 * step] = hn::Add(even_b, odd_b);
  r[4 * step] = hn::Sub(even_b, odd_b);
  r[5 * step] = y[3];
}

/// G g: 6 values of 3 weights.
HWY_INLINE void weight_line(const VecF* g, VecF* r, int step) {
  const VecF na = constant(1 / kNa), nb = constant(1 / kNb);
  const VecF even_a = hn::Mul(na, hn::MulAdd(constant(kA2), g[2], g[0]));
  const VecF even_b = hn::Mul(nb, hn::MulAdd(constant(kB2), g[2], g[0]));
  const VecF odd_a = hn::Mul(constant(kA / kNa), g[1]), odd_b = hn::Mul(constant(kB / kNb), g[1]);
  r[0] = hn::Mul(constant(1 / kN0), g[0]);
  r[1 * step] = hn::Add(even_a, odd_a);
  r[2 * step] = hn::Sub(even_a, odd_a);
  r[3 * step] = hn::Add(even_b, odd_b);
  r[4 * step] = hn::Sub(even_b, odd_b);
  r[5 * step] = g[2];
}

/// G' u: 3 gradients of weights.
HWY_INLINE void weight_gradient_line(const VecF* u, VecF* g, int step) {
  const VecF na = constant(1 / kNa), nb = constant(1 / kNb);
  const VecF p = hn::Mul(na, hn::Add(u[1], u[2])), r = hn::Mul(nb, hn::Add(u[3], u[4]));
  const VecF q = hn::Mul(na, hn::Sub(u[1], u[2])), s = hn::Mul(nb, hn::Sub(u[3], u[4]));
  g[0] = hn::MulAdd(constant(1 / kN0), u[0], hn::Add(p, r));
  g[1 * step] = hn::MulAdd(constant(kA), q, hn::Mul(constant(kB), s));
  g[2 * step] = hn::MulAdd(constant(kA2), p, hn::MulAdd(constant(kB2), r, u[5]));
}

/// Where transformed tiles lie: channel c of tile t and a point at data[point * step +
/// c / width * block + t * width + c % width].
struct Transformed {
  float* data;
  int64_t step;
  int64_t width;  // channels side by side; all, or a multiple of the vector's length
  int64_t block;  // from so many channels to the next

  /// With the channels of a tile in one row.
  static Transformed rows(float* data, int64_t step, int64_t channels) {
    return {data, step, channels, 0};
  }
  void next_tile() { data += width; }
};

/// A tile of kSize x kSize pixels (`from` is its first, maybe outside of the image; rows `row` and
/// pixels `channels` apart), transformed on both sides, as `place`'s first.
template <int kSize, bool kWhole, class Line>
HWY_INLINE void transform_tile(const float* from, int64_t row, int64_t channels, const Patch& patch,
                               const Transformed& place, const Line& line) {
  const TagF d;
  const int64_t step = place.step;
  float *block = place.data, *to = block;
  for (int64_t c = 0; c < channels; c += lanes_f32(), from += lanes_f32(), to += lanes_f32()) {
    if (to == block + place.width) to = block += place.block;
    VecF half[kIn * kSize];  // [point of the column][column]
    for (int x = 0; x < kSize; ++x) {
      VecF column[kSize];
      for (int y = 0; y < kSize; ++y) {
        const bool inside = kWhole || patch.has(y, x);
        column[y] = inside ? hn::LoadU(d, from + y * row + x * channels) : hn::Zero(d);
      }
      line(column, half + x, kSize);
    }
    for (int i = 0; i < kIn; ++i) {
      VecF points[kIn];
      line(half + i * kSize, points, 1);
      for (int j = 0; j < kIn; ++j) hn::StoreU(points[j], d, to + (i * kIn + j) * step);
    }
  }
}

/// The outputs of a tile from its products at from[point * step + channel].
template <bool kWhole>
HWY_INLINE void output_tile(const float* from, int64_t step, int64_t width,
                            const ConvEpilogue<float>& epilogue, float* to, int64_t row,
                            int64_t channels, const Patch& patch) {
  const TagF d;
  for (int64_t c = 0; c < width; c += lanes_f32(), from += lanes_f32(), to += lanes_f32()) {
    VecF half[kOut * kIn];  // [output row][point of the row]
    for (int j = 0; j < kIn; ++j) {
      VecF column[kIn];
      for (int i = 0; i < kIn; ++i) column[i] = hn::LoadU(d, from + (i * kIn + j) * step);
      output_line(column, half + j, kIn);
    }
    const VecF shift = epilogue.bias ? hn::LoadU(d, epilogue.bias + c) : hn::Zero(d);
    const int rows = kWhole ? kOut : patch.y1, columns = kWhole ? kOut : patch.x1;
    for (int y = 0; y < rows; ++y) {
      VecF line[kOut];
      output_line(half + y * kIn, line, 1);
      for (int x = 0; x < columns; ++x) {
        const VecF sum = hn::Add(line[x], shift);
        const VecF end = epilogue.relu ? hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(d)), sum) : sum;
        hn::StoreU(end, d, to + y * row + x * channels);
      }
    }
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
