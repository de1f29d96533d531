// How the fused convolution and pooling takes its input in and writes its results out (see
// kernels/conv_pool.cpp); included once per instruction set.
#include <cstdint>

#include "backend/cpu/conv/image_layout.h"
#include "backend/cpu/elementwise/transpose-inl.h"

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

/// Three planes to pixels, as pictures have them.
inline void interleave3(const float* from, int64_t plane, int64_t pixels, float* to) {
  const hn::CappedTag<float, 8> d;
  constexpr int64_t kStep = hn::MaxLanes(d);
  if (pixels < kStep) return transpose(from, plane, 3, pixels, to, 3);
  for (int64_t p = 0; p < pixels; p += kStep) {
    const float* at = from + std::min(p, pixels - kStep);
    hn::StoreInterleaved3(hn::LoadU(d, at), hn::LoadU(d, at + plane), hn::LoadU(d, at + 2 * plane),
                          d, to + 3 * std::min(p, pixels - kStep));
  }
}

/// A padded image whose channels lie side by side.
struct ChannelLast {
  int64_t channels, h, w;  // of the image
  Pair padding;            // on all sides

  int64_t row() const { return (w + 2 * padding.w) * channels; }
  int64_t size() const { return (h + 2 * padding.h) * row(); }

  /// Writes what lies inside the image; the padding is left alone.
  void load(const Image<const float>& image, float* to) const {
    const Rows rows = rows_of(image);
    to += padding.h * row() + padding.w * channels;
    for (int64_t y = 0; y < rows.count; ++y, to += row()) {
      const float* from = &image(0, y, 0);
      if (image.channel == 1 && image.column == channels)
        copy_row(from, to, rows.length * channels);
      else if (image.column == 1 && channels == 3)
        interleave3(from, image.channel, rows.length, to);
      else if (image.column == 1)
        transpose(from, image.channel, channels, rows.length, to, channels);
      else
        for (int64_t x = 0; x < rows.length; ++x)
          for (int64_t c = 0; c < channels; ++c) to[x * channels + c] = image(c, y, x);
    }
  }

  /// The way back, without the padding.
  void store(const float* from, const Image<float>& image) const {
    const Rows rows = rows_of(image);
    from += padding.h * row() + padding.w * channels;
    for (int64_t y = 0; y < rows.count; ++y, from += row()) {
      float* to = &image(0, y, 0);
      if (image.channel == 1 && image.column == channels)
        copy_row(from, to, rows.length * channels);
      else if (image.column == 1)
        transpose(from, channels, rows.length, channels, to, image.channel);
      else
        for (int64_t x = 0; x < rows.length; ++x)
          for (int64_t c = 0; c < channels; ++c) image(c, y, x) = from[x * channels + c];
    }
  }

 private:
  struct Rows {
    int64_t count, length;
  };
  /// All rows as one, where nothing lies between them.
  template <class T>
  Rows rows_of(const Image<T>& image) const {
    return padding.w == 0 && image.row == w * image.column ? Rows{1, h * w} : Rows{h, w};
  }
};

/// (rows, columns, ld) to rows `y`... of an image.
template <class T>
void write_channels(const T* from, int64_t ld, int64_t channels, int64_t rows, int64_t columns,
                    const Image<T>& to, int64_t y) {
  if (to.column == 1 && to.row == columns)
    return transpose(from, ld, rows * columns, channels, &to(0, y, 0), to.channel);
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
