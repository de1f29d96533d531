// Images as tiles of int8_convolution.cpp read them: padded, and on AVX2 widened to 16 bits.
// Include it inside a foreach_target file only.
#if defined(BRIM_RT_INT8_IMAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_INT8_IMAGES_INL_H_
#undef BRIM_RT_INT8_IMAGES_INL_H_
#else
#define BRIM_RT_INT8_IMAGES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "rt/kernels/int8.h"
#include "rt/kernels/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Bytes; or, where kSplits, pairs of u16 of every other input.
/// Whole steps have the even inputs here and the odd ones `odd` bytes behind. Windows that begin
/// anywhere have a pair for each input, with the input that is two behind it.
struct Int8Images {
  const uint8_t* data;
  int64_t input;       ///< bytes
  int64_t row, image;  ///< bytes
  int64_t odd = 0;     ///< from even inputs to odd ones

  /// The same of rows that are copied, of which bytes are spread afterwards.
  int64_t odd_bytes() const { return input == 1 ? odd : 0; }
};

/// Bytes; or, split, even inputs here and odd ones `odd` bytes behind, each in 16 bits.
HWY_INLINE void copy_inputs(const uint8_t* from, int64_t count, uint8_t* to, int64_t odd) {
  if (!kSplits || !odd) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  const hn::Rebind<uint32_t, TagI> d;
  const auto mask = hn::Set(d, 0x00FF00FF);
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    const auto all = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + i));
    hn::StoreU(hn::And(all, mask), d, reinterpret_cast<uint32_t*>(to + i));
    hn::StoreU(hn::And(hn::ShiftRight<8>(all), mask), d, reinterpret_cast<uint32_t*>(to + odd + i));
  }
  for (; i < count; i += 4) {
    const uint8_t parts[2][4] = {{from[i], 0, from[i + 2], 0}, {from[i + 1], 0, from[i + 3], 0}};
    std::memcpy(to + i, parts[0], 4);
    std::memcpy(to + odd + i, parts[1], 4);
  }
}

inline void fill_inputs(uint8_t value, int64_t count, uint8_t* to, int64_t odd) {
  if (!kSplits || !odd) {
    std::memset(to, value, static_cast<size_t>(count));
    return;
  }
  const uint8_t part[4] = {value, 0, value, 0};
  for (int64_t i = 0; i < count; i += 4) {
    std::memcpy(to + i, part, 4);
    std::memcpy(to + odd + i, part, 4);
  }
}

/// A row of bytes to a pair for each. They may lie at the end of its memory: none is overwritten
/// before it is read.
inline void spread_row(const uint8_t* from, int64_t count, uint8_t* to) {
  const hn::Rebind<uint32_t, TagI> d;
  const TagU8 bytes;
  int64_t i = 0;
  for (; i + kLanes + 2 <= count; i += kLanes) {
    const auto first = hn::PromoteTo(d, hn::LoadU(bytes, from + i));
    const auto second = hn::PromoteTo(d, hn::LoadU(bytes, from + i + 2));
    hn::StoreU(hn::Or(first, hn::ShiftLeft<16>(second)), d,
               reinterpret_cast<uint32_t*>(to + 4 * i));
  }
  for (; i < count; ++i) {
    const uint8_t pair[4] = {from[i], 0, i + 2 < count ? from[i + 2] : uint8_t{0}, 0};
    std::memcpy(to + 4 * i, pair, 4);
  }
}

/// Rows [begin, end) of images from `first` on, with their padding.
inline void pad_rows(const Int8Convolution& k, int64_t first, int64_t begin, int64_t end,
                     uint8_t* to, const Int8Images& x) {
  const int64_t height = k.covered_h(), width = k.covered_w(), count = width * k.c;
  if (k.is_whole()) {
    const uint8_t* const from = k.x + (first * height + begin) * count;
    if (x.input > 1)
      spread_row(from, (end - begin) * count, to + begin * x.row);
    else
      copy_inputs(from, (end - begin) * count, to + begin * x.row, x.odd);
    return;
  }
  const auto fill = [&](uint8_t* at, int64_t columns) {
    fill_inputs(static_cast<uint8_t>(k.zero_point), columns * k.c, at, x.odd_bytes());
  };
  const int64_t left = std::min(k.a.left, width), inner = std::clamp<int64_t>(k.w, 0, width - left);
  for (int64_t r = begin; r < end; ++r) {
    uint8_t* const at = to + r * x.row + (x.input - 1) * count;
    const int64_t y = r % height - k.a.top;
    if (y < 0 || y >= k.h) {
      fill(at, width);
    } else {
      fill(at, left);
      const uint8_t* const from = k.x + ((first + r / height) * k.h + y) * k.w * k.c;
      copy_inputs(from, inner * k.c, at + left * k.c, x.odd_bytes());
      fill(at + (left + inner) * k.c, width - left - inner);
    }
    if (x.input > 1) spread_row(at, count, to + r * x.row);
  }
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
