// A pixel is a vector of four lanes (the fourth is the next pixel's red and of no use), so a weight
// is one broadcast.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/transform/resample_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "data/transform/resample_rows.h"

HWY_BEFORE_NAMESPACE();
namespace brim::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t round_down(int32_t sum) {
  return static_cast<uint8_t>(HWY_MIN(HWY_MAX(sum >> kWeightBits, 0), 255));
}

#if HWY_TARGET == HWY_SCALAR  // one lane

void across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* all_weights,
            int stride, int width, uint8_t* to, int64_t to_pitch) {
  for (int row = 0; row < 2; ++row, from += pitch, to += to_pitch) {
    const int32_t* weights = all_weights;
    uint8_t* out = to;
    for (int x = 0; x < width; ++x, weights += stride, out += 3) {
      const uint8_t* pixel = from + 3 * int64_t{taps[x].first};
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int k = 0; k < taps[x].count; ++k, pixel += 3) {
        red += pixel[0] * weights[k], green += pixel[1] * weights[k], blue += pixel[2] * weights[k];
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
    auto sum = hn::Set(wide, kHalf);
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
      auto sum = hn::Set(wide, kHalf);
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

void down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights, int64_t bytes,
          uint8_t* to) {
  const hn::ScalableTag<int32_t> wide;
  const hn::Rebind<uint8_t, decltype(wide)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) {
    auto sum = hn::Set(wide, kHalf);
    for (int k = 0; k < count; ++k) {
      const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, rows + k * pitch + i));
      sum = hn::Add(sum, hn::Mul(value, hn::Set(wide, weights[k])));
    }
    hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<kWeightBits>(sum)), narrow, to + i);
  }
  for (; i < bytes; ++i) {
    int32_t sum = kHalf;
    for (int k = 0; k < count; ++k) sum += rows[k * pitch + i] * weights[k];
    to[i] = round_down(sum);
  }
}

}  // namespace
}  // namespace brim::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::data {

HWY_EXPORT(across);
HWY_EXPORT(down);

void resample_across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* weights,
                     int stride, int width, uint8_t* to, int64_t to_pitch) {
  HWY_DYNAMIC_DISPATCH(across)(from, pitch, taps, weights, stride, width, to, to_pitch);
}

void resample_down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights,
                   int64_t bytes, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(down)(rows, pitch, count, weights, bytes, to);
}

}  // namespace brim::data
#endif
