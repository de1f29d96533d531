// Element types of tensors, and the 16-bit floating-point types that C++20 lacks.
#pragma once

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brim {

/// Ops compute with those up to bool. The others are stored only: read from files, kept, moved
/// between devices, packed and written back bit for bit.
enum class DType : uint8_t {
  f32,          ///< IEEE 754 binary32
  f64,          ///< IEEE 754 binary64
  f16,          ///< IEEE 754 binary16; ops sum in f32
  bf16,         ///< the upper half of an f32; ops sum in f32
  i64,          ///< signed, 64 bits
  i32,          ///< signed, 32 bits
  i8,           ///< signed, 8 bits
  u8,           ///< unsigned, 8 bits
  bool_,        ///< a byte, 0 or 1
  i16,          ///< stored only, like all below
  u16,          ///< unsigned, 16 bits
  u32,          ///< unsigned, 32 bits
  u64,          ///< unsigned, 64 bits
  c64,          ///< two f32
  c128,         ///< two f64
  f8_e4m3fn,    ///< float8 with 4 bits of exponent, without infinity
  f8_e5m2,      ///< float8 with 5 bits of exponent
  f8_e4m3fnuz,  ///< as AMD and Graphcore have it: no negative zero
  f8_e5m2fnuz,  ///< as AMD and Graphcore have it: no negative zero
  f8_e8m0fnu    ///< powers of two, as scales of blocks
};
inline constexpr int kDTypeCount = 20;  ///< how many there are, those that are only stored included

///@{
/// Short names of those that ops compute with.
inline constexpr DType f32 = DType::f32, f64 = DType::f64, f16 = DType::f16, bf16 = DType::bf16;
inline constexpr DType i64 = DType::i64, i32 = DType::i32, i8 = DType::i8, u8 = DType::u8;
inline constexpr DType bool_ = DType::bool_;
///@}

/// IEEE 754 binary16: arithmetic happens in f32.
struct Half {
  uint16_t bits = 0;  ///< as stored
  Half() = default;
  explicit Half(float value);       ///< rounds to nearest even
  explicit operator float() const;  ///< exact
};

/// bfloat16 (the upper half of an IEEE binary32): arithmetic happens in f32; rounds to nearest
/// even.
struct BFloat16 {
  uint16_t bits = 0;  ///< as stored
  BFloat16() = default;
  explicit BFloat16(float value);  ///< rounds to nearest even
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }  ///< exact
};

/// Bytes of one element.
constexpr size_t size_of(DType t) {
  constexpr uint8_t kSize[kDTypeCount] = {4, 8, 2, 2, 8,  4, 1, 1, 1, 2,
                                          2, 4, 8, 8, 16, 1, 1, 1, 1, 1};
  return kSize[static_cast<int>(t)];
}
/// "f32", "bool", as in messages and options.
constexpr std::string_view name(DType t) {
  constexpr std::string_view kName[kDTypeCount] = {
      "f32",  "f64",       "f16",     "bf16",        "i64",         "i32",       "i8",
      "u8",   "bool",      "i16",     "u16",         "u32",         "u64",       "c64",
      "c128", "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0fnu"};
  return kName[static_cast<int>(t)];
}
/// The dtype called `text` ("f32", "bool", ...). Throws DTypeError.
DType parse_dtype(std::string_view text);

/// Whether ops compute with `t`.
constexpr bool is_computed(DType t) { return t <= DType::bool_; }
/// Of those that ops compute with; bool is integral.
constexpr bool is_floating(DType t) { return t <= DType::bf16; }
/// Integers that ops compute with, bool included.
constexpr bool is_integral(DType t) { return is_computed(t) && !is_floating(t); }

/// The dtype of `a op b`: the wider of the two in the order bool < integers < floats (PyTorch's
/// type promotion; f16 with bf16 gives f32, u8 with i8 gives i32). Throws DTypeError for two of
/// which one is stored only.
DType promote(DType a, DType b);

/// The dtype of a C++ type; only those that have one are defined.
template <class T>
struct DTypeOf;
/// @cond
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::bool_;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::c64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::c128;
};
/// @endcond
/// The dtype of T: dtype_of<float> is f32.
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace brim
