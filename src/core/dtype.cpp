// Conversions of the 16-bit types, names and type promotion.
#include <brim/core/dtype.h>

#include "core/check.h"

namespace brim {

Half::Half(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000;
  const uint32_t magnitude = x & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    bits = static_cast<uint16_t>(sign | 0x7e00);  // NaN
  } else if (magnitude >= 0x477ff000) {
    bits = static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  } else if (magnitude < 0x38800000) {            // subnormal: let the FPU round
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000));
  } else {
    const uint32_t odd = (magnitude >> 13) & 1;
    bits = static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
  }
}

Half::operator float() const {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

BFloat16::BFloat16(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  if ((x & 0x7fffffff) > 0x7f800000) {
    bits = static_cast<uint16_t>((x >> 16) | 0x40);  // quiet NaN
  } else {
    bits = static_cast<uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
  }
}

DType parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  raise<DTypeError>("[dtype] '{}' is no dtype; use f32, f64, f16, bf16, i64, i32, i8, u8 or bool",
                    text);
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  BRIM_CHECK(is_computed(a) && is_computed(b), DTypeError,
             "[dtype] {} and {}: ops compute with f32, f64, f16, bf16, i64, i32, i8, u8 and bool; "
             "others are stored only",
             name(a), name(b));
  // Rank inside each category; the wider wins, mixed 16-bit floats and mixed bytes widen.
  constexpr int kRank[] = {6, 7, 5, 5, 4, 3, 2, 2, 0};
  const int ra = kRank[static_cast<int>(a)], rb = kRank[static_cast<int>(b)];
  if (ra != rb) return ra > rb ? a : b;
  return ra == 5 ? DType::f32 : DType::i32;
}

}  // namespace brim
