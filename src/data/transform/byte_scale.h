// From samples to normalised floats; of bytes the same bits by table and by vectors.
#pragma once

#include <array>
#include <cstdint>

#include "formula/picture.h"

namespace brim::data {

/// Rows of one channel and where their floats go; pitches in elements.
template <class T>
struct ScaledRows {
  const T* from;
  int64_t from_pitch;
  float* to;
  int64_t to_pitch;
  int count;          ///< of a row
  int rows;           ///< at least 1
  bool flip = false;  ///< the last one of a row comes first
};

/// Converts number by number.
template <class T, class Scale>
void convert_rows(ScaledRows<T> all, const Scale& scale) {
  for (; all.rows > 0; --all.rows, all.from += all.from_pitch, all.to += all.to_pitch)
    for (int i = 0; i < all.count; ++i)
      all.to[all.flip ? all.count - 1 - i : i] = scale(all.from[i]);
}

/// (x / 255 - mean) / std for the bytes of one channel, each operation rounded as IEEE 754 says.
class ByteScale {
 public:
  ByteScale() = default;
  ByteScale(float mean, float std);

  float operator()(uint8_t x) const { return table_[x]; }

  void convert(const ScaledRows<uint8_t>& all) const;

 private:
  std::array<float, 256> table_{};
  float mean_ = 0, std_ = 1;
  bool vectors_ = false;  // the vector code makes the bits of the table
};

/// (x / 65535 - mean) / std, for 16 bits.
class WordScale {
 public:
  WordScale(float mean, float std) : mean_(mean), std_(std) {}

  float operator()(uint16_t x) const { return formula::normalized(x, mean_, std_); }
  void convert(const ScaledRows<uint16_t>& all) const { convert_rows(all, *this); }

 private:
  float mean_, std_;
};

/// Writes `value` into `count` floats, by vectors.
void fill_floats(float* to, int64_t count, float value);

/// Splits `count` pixels of interleaved RGB into three rows.
void split_rgb(const uint8_t* from, int count, uint8_t* red, uint8_t* green, uint8_t* blue);

}  // namespace brim::data
