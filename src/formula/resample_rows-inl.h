// The two inner loops of resampling pictures of 8 bits (formula/resample.h). A pixel is a vector of
// four lanes (the fourth is the next pixel's red and of no use), so a weight is one broadcast.
// Include it inside a foreach_target file only.
#if defined(BRIM_RESAMPLE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RESAMPLE_ROWS_INL_H_
#undef BRIM_RESAMPLE_ROWS_INL_H_
#else
#define BRIM_RESAMPLE_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include "formula/resample.h"

HWY_BEFORE_NAMESPACE();
namespace brim::formula::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Sums wrap around as those of vectors do, where a damaged file holds large weights.
constexpr uint32_t kHalf = 1 << (kWeightBits - 1);

uint8_t round_down(uint32_t sum) {
  return static_cast<uint8_t>(HWY_MIN(HWY_MAX(static_cast<int32_t>(sum) >> kWeightBits, 0), 255));
}

/// Two rows of interleaved RGB, `from` and `from + pitch`: `to` and `to + to_pitch` get `width`
/// pixels each, pixel x the weighted sum of the pixels taps[x] of the row, with weights from
/// weights[x * stride]. Reads and writes one byte more than the last pixel of each row.
#if HWY_TARGET == HWY_SCALAR  // one lane

void across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* all_weights,
            int stride, int width, uint8_t* to, int64_t to_pitch) {
  for (int row = 0; row < 2; ++row, from += pitch, to += to_pitch) {
    const int32_t* weights = all_weights;
    uint8_t* out = to;
    for (int x = 0; x < width; ++x, weights += stride, out += 3) {
      const uint8_t* pixel = from + 3 * int64_t{taps[x].first};
      uint32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int k = 0; k < taps[x].count; ++k, pixel += 3) {
        const auto weight = static_cast<uint32_t>(weights[k]);
        red += pixel[0] * weight, green += pixel[1] * weight, blue += pixel[2] * weight;
      }
      out[0] = round_down(red), out[1] = round_down(green), out[2] = round_down(blue);
    }
  }
}

#else

// The pixels of two rows side by side make a vector of eight lanes.
void across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* weights,
            int stride, int width, uint8_t* to, int64_t to_pitch) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  const hn::FixedTag<int32_t, 8> wide;
  const hn::Rebind<uint8_t, decltype(wide)> bytes;
  const hn::Half<decltype(bytes)> pixel_bytes;
  uint8_t* below = to + to_pitch;
  for (int x = 0; x < width; ++x, weights += stride, to += 3, below += 3) {
    const uint8_t* pixel = from + 3 * int64_t{taps[x].first};
    auto sum = hn::Set(wide, int32_t{kHalf});
    for (int k = 0; k < taps[x].count; ++k, pixel += 3) {
      const auto both =
          hn::Combine(bytes, hn::LoadU(pixel_bytes, pixel + pitch), hn::LoadU(pixel_bytes, pixel));
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(wide, both), hn::Set(wide, weights[k])));
    }
    const auto done = hn::DemoteTo(bytes, hn::ShiftRight<kWeightBits>(sum));
    hn::StoreU(hn::LowerHalf(pixel_bytes, done), pixel_bytes, to);
    hn::StoreU(hn::UpperHalf(pixel_bytes, done), pixel_bytes, below);
  }
#else
  const hn::FixedTag<int32_t, 4> wide;
  const hn::Rebind<uint8_t, decltype(wide)> bytes;
  for (int row = 0; row < 2; ++row, from += pitch, to += to_pitch) {
    const int32_t* weight = weights;
    uint8_t* out = to;
    for (int x = 0; x < width; ++x, weight += stride, out += 3) {
      const uint8_t* pixel = from + 3 * int64_t{taps[x].first};
      auto sum = hn::Set(wide, int32_t{kHalf});
      for (int k = 0; k < taps[x].count; ++k, pixel += 3) {
        const auto value = hn::PromoteTo(wide, hn::LoadU(bytes, pixel));
        sum = hn::Add(sum, hn::Mul(value, hn::Set(wide, weight[k])));
      }
      hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<kWeightBits>(sum)), bytes, out);
    }
  }
#endif
}
#endif

/// The weighted sum of `count` rows of `bytes` bytes, `pitch` bytes apart.
void down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights, int64_t bytes,
          uint8_t* to) {
  const hn::ScalableTag<int32_t> wide;
  const hn::Rebind<uint8_t, decltype(wide)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) {
    auto sum = hn::Set(wide, int32_t{kHalf});
    for (int k = 0; k < count; ++k) {
      const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, rows + k * pitch + i));
      sum = hn::Add(sum, hn::Mul(value, hn::Set(wide, weights[k])));
    }
    hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<kWeightBits>(sum)), narrow, to + i);
  }
  for (; i < bytes; ++i) {
    uint32_t sum = kHalf;
    for (int k = 0; k < count; ++k) sum += rows[k * pitch + i] * static_cast<uint32_t>(weights[k]);
    to[i] = round_down(sum);
  }
}

}  // namespace
}  // namespace brim::formula::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
