// A convolution by Winograd's transform in integers (see int8_winograd.h): its transforms, products
// and outputs, for some tiles and outputs each. Where weights lie, and what becomes of sums, is the
// layer's affair: libbrim's and engines' have it. Include it inside a foreach_target file only.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(BRIM_INT8_WINOGRAD_PROBLEM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_INT8_WINOGRAD_PROBLEM_INL_H_
#undef BRIM_INT8_WINOGRAD_PROBLEM_INL_H_
#else
#define BRIM_INT8_WINOGRAD_PROBLEM_INL_H_
#endif

#include "backend/cpu/int8/int8_winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

constexpr int64_t kBlock = 32;    // tiles that go through the steps together
constexpr int64_t kOutputs = 64;  // outputs that pass a block of tiles together
constexpr int64_t kPad = 32;      // between points: they would share the cache's sets otherwise
constexpr int64_t kWidth = 16;    // channels of a vector of words
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Sums()));

// The tile of sums: rows (of tiles) x vectors of outputs.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 6, kVectors = 4;
#else
constexpr int kRows = 4, kVectors = 2;
#endif

/// Of groups of four i8, the first pairs as i16 or the second ones.
HWY_INLINE Word pairs_of_quads(const int8_t* from, bool is_second) {
  const Words d;
  const hn::Repartition<uint32_t, Words> du;
  const Word all = hn::LoadU(d, reinterpret_cast<const int16_t*>(from));
  const auto even = hn::BitCast(du, hn::ShiftRight<8>(hn::ShiftLeft<8>(all)));
  const auto odd = hn::BitCast(du, hn::ShiftRight<8>(all));
  const auto low = hn::Set(du, 0xFFFF);
  return hn::BitCast(d, is_second ? hn::Or(hn::ShiftRight<16>(even), hn::AndNot(low, odd))
                                  : hn::Or(hn::And(low, even), hn::ShiftLeft<16>(odd)));
}

/// Picoseconds for each pair of channels: of a direct sum's output, a tile, and the weights'
/// transform, on a core of Zen 5 (VNNI) and of Zen 4.
#if HWY_TARGET <= HWY_AVX3_DL
constexpr int64_t kOfOutput = 35, kOfTile = 400, kOfWeights = 2200;
#else
constexpr int64_t kOfOutput = 117, kOfTile = 436, kOfWeights = 2160;
#endif
/// Whether this is faster than the direct sum.
inline bool spares_time(const WinogradTiles& tiles) {
  return kOfOutput * tiles.n * tiles.oh * tiles.ow > kOfTile * tiles.count() + kOfWeights;
}

/// pairs_of(strip, tap, c, lane): the weights of 8 outputs of a strip from `lane` on, of channels c
/// and c + 1; outputs_of(output).store(sum, at): of a strip's outputs, by the offset in y.
template <class Layer>
struct WinogradProblem : WinogradTiles {
  int64_t in, out;
  const uint8_t* x;
  int16_t padding;  ///< what stands for zero, less kWinogradShift
  Layer layer;

  int64_t strips() const { return out / kLanes; }
  int64_t point_words() const { return in * kLanes + kPad; }  // of a strip's transformed weights
  int64_t strip_words() const { return kPoints * point_words(); }
  bool by_tiles() const { return count() > std::max(in, out); }

  /// A tile's inputs, transformed: channel c of a point to v[point * step + c].
  template <bool kWhole>
  HWY_INLINE void transform_tile(const uint8_t* from, const Patch& patch, int16_t* v,
                                 int64_t step) const {
    const Words d;
    const hn::Rebind<uint8_t, Words> bytes;
    const Word shift = hn::Set(d, kWinogradShift), outside = hn::Set(d, padding);
    for (int64_t c = 0; c < in; c += kWidth, from += kWidth, v += kWidth) {
      Word half[kIn * kIn];  // [point of the column][column]
      for (int column = 0; column < kIn; ++column) {
        Word pixels[kIn];
        for (int row = 0; row < kIn; ++row)
          pixels[row] =
              kWhole || patch.has(row, column)
                  ? hn::Sub(hn::PromoteTo(d, hn::LoadU(bytes, from + (row * w + column) * in)),
                            shift)
                  : outside;
        input_line(pixels, half + column, kIn);
      }
      for (int i = 0; i < kIn; ++i) {
        Word points[kIn];
        input_line(half + i * kIn, points, 1);
        for (int j = 0; j < kIn; ++j) hn::StoreU(points[j], d, v + (i * kIn + j) * step);
      }
    }
  }

  /// Tiles [begin, end) to v[point * step + (tile - begin) * in + channel].
  void transform_x(int64_t begin, int64_t end, int16_t* v, int64_t step) const {
    for (int64_t t = begin; t < end; ++t, v += in) {
      const Place p = place(t);
      const Patch patch = inputs(p);
      const uint8_t* const from = x + first_input(p) * in;
      if (patch.whole(kIn))
        transform_tile<true>(from, patch, v, step);
      else
        transform_tile<false>(from, patch, v, step);
    }
  }

  /// Input channels [first, last), whole vectors, of a strip's outputs: (points, pairs of channels,
  /// lanes, 2).
  void transform_weights(int64_t strip, int64_t first, int64_t last, int16_t* u) const {
    constexpr int64_t kPart = kWidth / 2;  // lanes of a vector of pairs
    for (int64_t c = first; c < last; c += 2)
      for (int64_t lane = 0; lane < kLanes; lane += kPart) {
        Word half[kIn * 3];  // [point of the column][column]
        for (int column = 0; column < 3; ++column) {
          Word taps[3];
          for (int row = 0; row < 3; ++row)
            taps[row] = layer.pairs_of(strip, row * 3 + column, c, lane);
          weight_line(taps, half + column, 3);
        }
        for (int i = 0; i < kIn; ++i) {
          Word points[kIn];
          weight_line(half + i * 3, points, 1);
          for (int j = 0; j < kIn; ++j)
            hn::StoreU(points[j], Words(),
                       u + (i * kIn + j) * point_words() + c * kLanes + lane * 2);
        }
      }
  }

  /// The sums and outputs of strips [first, last) for tiles [begin, end), whose transform is v;
  /// their weights are u, and m has room for the sums of each. Point by point, so that tiles stay
  /// in the cache while the strips go by.
  void outputs_of(const int16_t* v, int64_t v_step, const int16_t* u, int64_t first, int64_t last,
                  int64_t begin, int64_t end, int32_t* m) const {
    const int64_t count = end - begin, m_step = sums_step(count);
    for (int64_t k = 0; k < kPoints; ++k) {
      const int16_t* const rows = v + k * v_step;
      const int16_t* const weights = u + k * point_words();
      int32_t* const to = m + k * m_step;
      int64_t s = 0;
      for (; s + kVectors <= last - first; s += kVectors)
        rows_of<kVectors>(rows, count, weights + s * strip_words(), to + s * kPoints * m_step,
                          kPoints * m_step);
      for (; s < last - first; ++s)
        rows_of<1>(rows, count, weights + s * strip_words(), to + s * kPoints * m_step, 0);
    }
    for (int64_t s = first; s < last; ++s)
      transform_back(m + (s - first) * kPoints * m_step, m_step, begin, end, s * kLanes);
  }
  static int64_t sums_step(int64_t tiles) { return tiles * kLanes + kPad / 2; }

 private:
  /// R tiles times V strips: the sums of a point.
  template <int R, int V>
  HWY_INLINE void products(const int16_t* rows, const int16_t* weights, int32_t* to,
                           int64_t to_strip) const {
    Sum acc[R][V];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < V; ++i) acc[r][i] = hn::Zero(Sums());
    const int64_t strip = strip_words();
    for (int64_t c = 0; c < in; c += 2, rows += 2, weights += 2 * kLanes) {
      Sum w[V];
      for (int i = 0; i < V; ++i)
        w[i] = hn::LoadU(Sums(), reinterpret_cast<const int32_t*>(weights + i * strip));
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        hwy::CopyBytes<4>(rows + r * in, &pair);
        const Sum v = hn::Set(Sums(), pair);
        for (int i = 0; i < V; ++i) acc[r][i] = plus_pairs(acc[r][i], v, w[i]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < V; ++i) hn::StoreU(acc[r][i], Sums(), to + i * to_strip + r * kLanes);
  }

  template <int V>
  HWY_INLINE void rows_of(const int16_t* rows, int64_t count, const int16_t* weights, int32_t* to,
                          int64_t to_strip) const {
    int64_t r = 0;
    for (; r + kRows <= count; r += kRows)
      products<kRows, V>(rows + r * in, weights, to + r * kLanes, to_strip);
    for (; r + 2 <= count; r += 2)
      products<2, V>(rows + r * in, weights, to + r * kLanes, to_strip);
    if (r < count) products<1, V>(rows + r * in, weights, to + r * kLanes, to_strip);
  }

  /// Outputs of a strip, of tiles [begin, end), from their sums at m[point * step + ..].
  void transform_back(const int32_t* m, int64_t step, int64_t begin, int64_t end,
                      int64_t output) const {
    const auto of_strip = layer.outputs_of(output);
    for (int64_t t = begin; t < end; ++t, m += kLanes) {
      const Place p = place(t);
      const Patch patch = outputs(p);
      const int64_t at = first_output(p) * out + output;
      Sum half[kOut * kIn];  // [output row][point of the row]
      for (int j = 0; j < kIn; ++j) {
        Sum column[kIn];
        for (int i = 0; i < kIn; ++i) column[i] = hn::LoadU(Sums(), m + (i * kIn + j) * step);
        output_line(column, half + j, kIn);
      }
      const auto put = [&]<int kRow>(std::integral_constant<int, kRow>) HWY_ATTR {
        if (kRow >= patch.y1) return;
        Sum line[kOut];
        output_line(half + kRow * kIn, line, 1);
        const auto put_one = [&]<int kColumn>(std::integral_constant<int, kColumn>) HWY_ATTR {
          if (kColumn >= patch.x1) return;
          const Sum sum = divided<kShifts[kRow] + kShifts[kColumn]>(line[kColumn]);
          of_strip.store(sum, at + (kRow * ow + kColumn) * out);
        };
        put_one(std::integral_constant<int, 0>());
        put_one(std::integral_constant<int, 1>());
        put_one(std::integral_constant<int, 2>());
        put_one(std::integral_constant<int, 3>());
      };
      put(std::integral_constant<int, 0>());
      put(std::integral_constant<int, 1>());
      put(std::integral_constant<int, 2>());
      put(std::integral_constant<int, 3>());
    }
  }
};

#endif

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
