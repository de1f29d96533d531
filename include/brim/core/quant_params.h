// Scale and zero point of numbers that are kept in 8 bits.
#pragma once

#include <cstdint>

namespace brim {

/// How numbers are kept in u8: x is about (q - zero_point) * scale.
struct QuantParams {
  float scale = 1;         ///< step from one integer to the next
  int32_t zero_point = 0;  ///< the integer that stands for 0

  /// Those whose 256 steps reach from min to max, and have one for 0 itself. Throws ValueError
  /// unless both are finite and min <= max.
  static QuantParams of_range(double min, double max);
  /// Throws ValueError unless scale is a normal number above 0 and zero_point in 0..255.
  void check() const;
  /// The number that integer 0 stands for.
  float min() const { return static_cast<float>(-zero_point) * scale; }
  /// The number that integer 255 stands for.
  float max() const { return static_cast<float>(255 - zero_point) * scale; }
  /// Whether all parts are equal.
  friend bool operator==(const QuantParams&, const QuantParams&) = default;
};

}  // namespace brim
