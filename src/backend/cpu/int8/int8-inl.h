// How instruction sets multiply 8-bit integers, and what becomes of sums (see int8_rows.h);
// included once per instruction set. A source that includes it defines HWY_WANT_AVX3_DL first.
#include <cstdint>

#include "backend/cpu/int8/int8_rows.h"

#if defined(BRIM_CPU_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_INT8_INL_H
#undef BRIM_CPU_INT8_INL_H
#else
#define BRIM_CPU_INT8_INL_H
#endif

#include "backend/cpu/int8/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
constexpr bool kQuads = true;
#else
constexpr bool kQuads = false;
#endif
constexpr int64_t kGroup = kQuads ? 4 : 2;
using Numbers = hn::Rebind<float, Sums>;
using Bytes = hn::Rebind<uint8_t, Sums>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
using Inputs = Sum;   // a step's, for all outputs of a strip
using Weights = Sum;  // a step's

HWY_INLINE Inputs inputs_at(const char* x) {
  int32_t all;  // rows have no alignment
  hwy::CopyBytes<4>(x, &all);
  return hn::Set(Sums(), all);
}
/// A step's, for all positions of a vector, and a weight for all of them.
HWY_INLINE Inputs inputs_of(const int32_t* x) { return hn::LoadU(Sums(), x); }
HWY_INLINE Weights weight_at(const int32_t* w) { return hn::Set(Sums(), *w); }
HWY_INLINE Weights weights_at(const int8_t* w) {
  if constexpr (kQuads) return hn::LoadU(Sums(), reinterpret_cast<const int32_t*>(w));
  const hn::Repartition<int16_t, Sums> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  return hn::BitCast(Sums(), hn::PromoteTo(d16, hn::LoadU(d8, w)));
}
/// sum + the products of a step's inputs and weights.
HWY_INLINE Sum plus_products(Sum sum, Inputs x, Weights w) {
#if HWY_TARGET <= HWY_AVX3_DL
  // No intrinsic: Highway 1.0 does not ask the compiler for avx512vnni, which this target has.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
  return sum;
#else
  return plus_pairs(sum, x, w);
#endif
}
#else
struct Pair {
  Sum first, second;
};
using Inputs = Pair;
using Weights = Pair;

HWY_INLINE Inputs inputs_at(const char* x) {
  int16_t two[2];
  hwy::CopyBytes<4>(x, two);
  return {hn::Set(Sums(), two[0]), hn::Set(Sums(), two[1])};
}
HWY_INLINE Pair halves_of(Sum pairs) {
  return {hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), hn::ShiftRight<16>(pairs)};
}
HWY_INLINE Inputs inputs_of(const int32_t* x) { return halves_of(hn::LoadU(Sums(), x)); }
HWY_INLINE Weights weight_at(const int32_t* w) { return halves_of(hn::Set(Sums(), *w)); }
HWY_INLINE Weights weights_at(const int8_t* w) {
  const hn::Rebind<int8_t, Sums> d8;
  hn::Vec<decltype(d8)> first, second;
  hn::LoadInterleaved2(d8, w, first, second);
  return {hn::PromoteTo(Sums(), first), hn::PromoteTo(Sums(), second)};
}
HWY_INLINE Sum plus_products(Sum sum, const Inputs& x, const Weights& w) {
  return hn::Add(sum, hn::Add(hn::Mul(x.first, w.first), hn::Mul(x.second, w.second)));
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3
/// The same of four u8 and four i8, of which no two neighbours' products add up to more than an i16
/// holds.
HWY_INLINE Sum plus_narrow_products(Sum sum, Sum x, Sum w) {
  const auto pairs = _mm256_maddubs_epi16(x.raw, w.raw);
  return hn::Add(sum, Sum{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
#endif

/// round(v * inverse) + zero_point in 0..255; 0 for NaN.
HWY_INLINE auto to_u8(hn::Vec<Numbers> v, hn::Vec<Numbers> inverse, int32_t zero_point) {
  const Numbers d;
  const hn::Rebind<uint32_t, Sums> du;
  const auto zero = static_cast<float>(zero_point);
  const auto min = hn::Set(d, -zero), max = hn::Set(d, 255 - zero);
  v = hn::Mul(v, inverse);
#if !HWY_ARCH_X86  // whose Max gives the second one then
  v = hn::IfThenElse(hn::Eq(v, v), v, min);
#endif
  v = hn::Min(hn::Max(v, min), max);
  // 1.5 x 2^23: behind it a float has no room for a fraction, and the whole number is in its bits.
  constexpr float kWhole = 12582912;
  constexpr uint32_t kBits = 0x4B400000;
  const auto bits = hn::BitCast(du, hn::Add(v, hn::Set(d, kWhole)));
  const auto q = hn::Sub(bits, hn::Set(du, kBits - static_cast<uint32_t>(zero_point)));
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // TruncateTo is wrong for AVX3_DL in Highway 1.0.3
  return hn::Vec<Bytes>{_mm512_cvtepi32_epi8(q.raw)};
#elif HWY_TARGET == HWY_SCALAR
  return hn::DemoteTo(Bytes(), hn::BitCast(Sums(), q));
#else
  return hn::TruncateTo(Bytes(), q);
#endif
}

/// y[at ..] = v, of f32 or u8.
HWY_INLINE void store(hn::Vec<Numbers> v, const Int8Finish& f, hn::Vec<Numbers> inverse, void* y,
                      int64_t at) {
  if (f.inverse == 0)
    hn::StoreU(v, Numbers(), static_cast<float*>(y) + at);
  else
    hn::StoreU(to_u8(v, inverse, f.zero_point), Bytes(), static_cast<uint8_t*>(y) + at);
}

/// v of output `output`, and what follows; to y[at ..], if that is not null.
HWY_INLINE void store_epilogue(hn::Vec<Numbers> v, const Int8Finish& f, hn::Vec<Numbers> inverse,
                               int64_t output, float* y, int64_t at) {
  const Numbers d;
  const Int8Epilogue& t = *f.epilogue;
  if (t.mean)
    v = hn::MulAdd(hn::Sub(v, hn::LoadU(d, t.mean + output)), hn::LoadU(d, t.factor + output),
                   hn::LoadU(d, t.shift + output));
  if (t.residual) v = hn::Add(v, hn::LoadU(d, t.residual + at));
  const auto min = hn::Set(d, t.min), max = hn::Set(d, t.max);
  v = hn::IfThenElse(hn::Lt(v, min), min, v);
  v = hn::IfThenElse(hn::Gt(v, max), max, v);
  if (y) hn::StoreU(v, d, y + at);
  if (t.q) hn::StoreU(to_u8(v, inverse, f.zero_point), Bytes(), t.q + at);
}

/// What becomes of the sums of a vector of outputs.
struct OutputFinish {
  const Int8Finish& f;
  int64_t output;  // the first one
  hn::Vec<Numbers> scale, shift, min, inverse;

  HWY_INLINE OutputFinish(const Int8Finish& finish, int64_t first)
      : f(finish),
        output(first),
        scale(hn::LoadU(Numbers(), f.scale + first)),
        shift(hn::LoadU(Numbers(), f.shift + first)),
        min(hn::Set(Numbers(), f.min)),
        inverse(hn::Set(Numbers(), f.inverse)) {}
  /// To y[at ..].
  HWY_INLINE void store_sum(Sum sum, void* y, int64_t at) const {
    const auto v = hn::Max(hn::MulAdd(hn::ConvertTo(Numbers(), sum), scale, shift), min);
    if (f.epilogue)
      store_epilogue(v, f, inverse, output, static_cast<float*>(y), at);
    else
      store(v, f, inverse, y, at);
  }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
