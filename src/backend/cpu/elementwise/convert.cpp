#include "backend/cpu/elementwise/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/elementwise/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using Narrow = hn::Rebind<hwy::float16_t, Wide>;
using NarrowBits = hn::RebindToUnsigned<Narrow>;

void half_to_float(const Half* from, float* to, int64_t n) {
  int64_t i = 0;
  if constexpr (kConvertsHalf) {
    const Wide d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) hn::StoreU(load(d, from + i), d, to + i);
  }
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void float_to_half(const float* from, Half* to, int64_t n) {
  const Wide d;
  const Narrow d16;
  const NarrowBits bits;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  uint16_t* const p = reinterpret_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; kConvertsHalf && i + lanes <= n; i += lanes)
    hn::StoreU(hn::BitCast(bits, hn::DemoteTo(d16, hn::LoadU(d, from + i))), bits, p + i);
  for (; i < n; ++i) to[i] = Half(from[i]);
}

void bfloat_to_float(const BFloat16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

// The same bits as BFloat16(float).
void float_to_bfloat(const float* from, BFloat16* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    store_two(d, hn::LoadU(d, from + i), hn::LoadU(d, from + i + lanes), to + i);
  if (i + lanes <= n) {
    const hn::Repartition<uint16_t, Wide> halves;
    const hn::Half<decltype(halves)> half;
    const auto bits = hn::BitCast(halves, bfloat_bits(d, hn::LoadU(d, from + i)));
    hn::StoreU(hn::LowerHalf(half, hn::ConcatOdd(halves, bits, bits)), half,
               reinterpret_cast<uint16_t*>(to) + i);
    i += lanes;
  }
#endif
  for (; i < n; ++i) to[i] = BFloat16(from[i]);
}

// Floats from 2^31 on are whole multiples of 256, and i64 ends at ones. i8 has the same bits.
void float_to_byte(const float* from, uint8_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float near = std::fabs(from[i]) < 0x1p31f ? from[i] : 0.0f;
    const int beyond = from[i] >= 0x1p63f ? 0xff : 0;
    to[i] = static_cast<uint8_t>(static_cast<int>(near) | beyond);
  }
}

void float_to_bool(const float* from, bool* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] != 0.0f;
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(half_to_float);
HWY_EXPORT(float_to_half);
HWY_EXPORT(bfloat_to_float);
HWY_EXPORT(float_to_bfloat);
HWY_EXPORT(float_to_byte);
HWY_EXPORT(float_to_bool);

void convert_run(const Half* from, float* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(half_to_float)(from, to, n);
}
void convert_run(const BFloat16* from, float* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(bfloat_to_float)(from, to, n);
}
void convert_run(const float* from, Half* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(float_to_half)(from, to, n);
}
void convert_run(const float* from, BFloat16* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(float_to_bfloat)(from, to, n);
}
void convert_run(const float* from, int8_t* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(float_to_byte)(from, reinterpret_cast<uint8_t*>(to), n);
}
void convert_run(const float* from, uint8_t* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(float_to_byte)(from, to, n);
}
void convert_run(const float* from, bool* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(float_to_bool)(from, to, n);
}

}  // namespace brim::cpu
#endif
