// How the fused convolution and pooling takes its input in and writes its results out (see
// kernels/conv_pool.cpp); included once per instruction set.
#include <cstdint>

#include "backend/cpu/image_layout.h"

#if defined(BRIM_CPU_CONV_POOL_COPY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_CONV_POOL_COPY_INL_H
#undef BRIM_CPU_CONV_POOL_COPY_INL_H
#else
#define BRIM_CPU_CONV_POOL_COPY_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// The even and the odd ones of `count` numbers.
inline void split_pairs(const float* from, int64_t count, float* even, float* odd) {
  const hn::CappedTag<float, 8> d;
  constexpr int64_t kStep = hn::MaxLanes(d);
  const int64_t pairs = count / 2;
  int64_t i = 0;
  while (pairs >= kStep && i < pairs) {
    i = std::min(i, pairs - kStep);  // the last vectors overlap what is done already
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, from + 2 * i, a, b);
    hn::StoreU(a, d, even + i);
    hn::StoreU(b, d, odd + i);
    i += kStep;
  }
  for (; i < pairs; ++i) {
    even[i] = from[2 * i];
    odd[i] = from[2 * i + 1];
  }
  if (count % 2 != 0) even[pairs] = from[count - 1];
}

/// Planes of rows that lie `wide` apart, planes `ld` apart.
template <class T>
struct WidePlanes {
  const T* from;  // may be read a vector beyond its end
  int64_t ld, wide;
  int64_t planes, rows, columns;

  /// Without gaps, at `to`: whole vectors, whose surplus the next row overwrites.
  void pack(T* to) const {
    const hn::CappedTag<T, 16> d;
    constexpr int64_t kStep = hn::MaxLanes(d);
    const T* const end = to + planes * rows * columns;
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t r = 0; r < rows; ++r, to += columns) {
        const T* row = from + p * ld + r * wide;
        for (int64_t x = 0; x < columns; x += kStep)
          if (end - to >= x + kStep)
            hn::StoreU(hn::LoadU(d, row + x), d, to + x);
          else
            std::copy(row + x, row + columns, to + x);
      }
  }

  /// Anywhere.
  void scatter(const Image<T>& to) const {
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = from + p * ld + r * wide;
        for (int64_t x = 0; x < columns; ++x) to(p, r, x) = row[x];
      }
  }
};

/// (pixels, ld) to planes (channels, pixels), which are `plane` apart.
inline void turn_to_planes(const float* from, int64_t ld, int64_t channels, int64_t pixels,
                           float* to, int64_t plane) {
#if HWY_TARGET != HWY_SCALAR
  if (channels >= 4 && pixels >= 4) {
    const hn::CappedTag<float, 4> d;
    for (int64_t channel = 0; channel < channels; channel += 4)
      for (int64_t pixel = 0; pixel < pixels; pixel += 4) {
        const int64_t c = std::min(channel, channels - 4), p = std::min(pixel, pixels - 4);
        const float* at = from + p * ld + c;
        const auto r0 = hn::LoadU(d, at), r1 = hn::LoadU(d, at + ld);
        const auto r2 = hn::LoadU(d, at + 2 * ld), r3 = hn::LoadU(d, at + 3 * ld);
        const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
        const auto up01 = hn::InterleaveUpper(d, r0, r1), up23 = hn::InterleaveUpper(d, r2, r3);
        float* out = to + c * plane + p;
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + plane);
        hn::StoreU(hn::ConcatLowerLower(d, up23, up01), d, out + 2 * plane);
        hn::StoreU(hn::ConcatUpperUpper(d, up23, up01), d, out + 3 * plane);
      }
    return;
  }
#endif
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < pixels; ++p) to[c * plane + p] = from[p * ld + c];
}

inline void turn_to_planes(const uint8_t* from, int64_t ld, int64_t channels, int64_t pixels,
                           uint8_t* to, int64_t plane) {
  for (int64_t c = 0; c < channels; ++c, to += plane) {
    const uint8_t* at = from + c;
    for (int64_t p = 0; p < pixels; ++p, at += ld) to[p] = *at;
  }
}

/// (rows, columns, ld) to rows `y`... of an image.
template <class T>
void write_channels(const T* from, int64_t ld, int64_t channels, int64_t rows, int64_t columns,
                    const Image<T>& to, int64_t y) {
  if (to.column == 1 && to.row == columns)
    return turn_to_planes(from, ld, channels, rows * columns, &to(0, y, 0), to.channel);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t x = 0; x < columns; ++x, from += ld) {
      T* at = &to(0, y + r, x);
      if (to.channel == 1)
        copy_row(from, at, channels);
      else
        for (int64_t c = 0; c < channels; ++c) at[c * to.channel] = from[c];
    }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
