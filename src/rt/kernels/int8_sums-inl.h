// Sums of products of u8 and i8, four inputs at a time, for a panel of 16 outputs: how each
// instruction set multiplies. All are exact. Include it inside a foreach_target file only.
#if defined(BRIM_RT_INT8_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_INT8_SUMS_INL_H_
#undef BRIM_RT_INT8_SUMS_INL_H_
#else
#define BRIM_RT_INT8_SUMS_INL_H_
#endif

#include <cstring>

#include "backend/cpu/int8/int8_sums-inl.h"
#include "rt/kernels/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

// Whether ARM adds four products of bytes at once: of i8, so that kInt8Shift is taken off inputs.
#undef BRIM_RT_DOTS_BYTES
#if HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR && defined(__ARM_FEATURE_DOTPROD)
#define BRIM_RT_DOTS_BYTES 1
constexpr int32_t kInt8Shift = 128;
#else
#define BRIM_RT_DOTS_BYTES 0
constexpr int32_t kInt8Shift = 0;
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
// Whether four products of bytes are added at once: AVX-512 does so, too, where all of the runtime
// is compiled for a CPU that has VNNI.
#undef BRIM_RT_ADDS_FOUR_BYTES
#if HWY_TARGET <= HWY_AVX3_DL || (HWY_TARGET == HWY_AVX3 && defined(__AVX512VNNI__))
#define BRIM_RT_ADDS_FOUR_BYTES 1
#else
#define BRIM_RT_ADDS_FOUR_BYTES 0
#endif
#if BRIM_RT_ADDS_FOUR_BYTES
constexpr bool kSplits = false;
constexpr int kInt8Rows = 6, kInt8Panels = 4;
/// A step's weights of a vector of outputs.
struct Int8Weights {
  VecI all;
  HWY_INLINE explicit Int8Weights(const uint8_t* from)
      : all(hn::LoadU(TagI(), reinterpret_cast<const int32_t*>(from))) {}
};
/// A step's inputs, for all outputs.
struct Int8Inputs {
  VecI all;
  HWY_INLINE explicit Int8Inputs(const uint8_t* from) {
    int32_t four;
    std::memcpy(&four, from, sizeof four);
    all = hn::Set(TagI(), four);
  }
};
HWY_INLINE VecI plus_products(VecI sum, const Int8Inputs& x, const Int8Weights& w) {
  // No intrinsic: Highway 1.0 does not ask the compiler for avx512vnni, which this target has.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.all.raw), "v"(w.all.raw));
  return sum;
}
#else
// Whether inputs are split into even and odd ones when they are copied.
constexpr bool kSplits = HWY_TARGET <= HWY_AVX2;
constexpr int kInt8Rows = kSplits ? 6 : 2, kInt8Panels = 1;
using TagI16 = hn::Repartition<int16_t, TagI>;
using VecI16 = hn::Vec<TagI16>;
/// Inputs 0 and 2 of a step, and 1 and 3, as i16.
struct Int8Weights {
  VecI16 even, odd;
  HWY_INLINE explicit Int8Weights(const uint8_t* from) {
    const VecI16 all =
        hn::BitCast(TagI16(), hn::LoadU(TagI(), reinterpret_cast<const int32_t*>(from)));
    even = hn::ShiftRight<8>(hn::ShiftLeft<8>(all));
    odd = hn::ShiftRight<8>(all);
  }
};
struct Int8Inputs {
  VecI16 even, odd;
  HWY_INLINE explicit Int8Inputs(const uint8_t* from) {
    int32_t four;
    std::memcpy(&four, from, sizeof four);
    const VecI all = hn::Set(TagI(), four);
    even = hn::BitCast(TagI16(), hn::And(all, hn::Set(TagI(), 0x00FF00FF)));
    const hn::RebindToUnsigned<TagI16> unsigned16;
    odd = hn::BitCast(TagI16(), hn::ShiftRight<8>(hn::BitCast(unsigned16, all)));
  }
};
HWY_INLINE VecI plus_pairs(VecI sum, VecI16 x, VecI16 w) {
#if HWY_TARGET <= HWY_AVX2
  return cpu::HWY_NAMESPACE::plus_pairs(sum, hn::BitCast(TagI(), x), hn::BitCast(TagI(), w));
#else
  return hn::Add(sum, VecI{_mm_madd_epi16(x.raw, w.raw)});
#endif
}
/// What a split of inputs has, for all outputs.
HWY_INLINE VecI16 pairs_at(const uint8_t* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return hn::BitCast(TagI16(), hn::Set(TagI(), pair));
}
HWY_INLINE VecI plus_products(VecI sum, const Int8Inputs& x, const Int8Weights& w) {
  return plus_pairs(plus_pairs(sum, x.even, w.even), x.odd, w.odd);
}
#endif
#elif BRIM_RT_DOTS_BYTES
constexpr bool kSplits = false;
constexpr int kInt8Rows = 6, kInt8Panels = 1;
struct Int8Weights {
  VecI all;
  HWY_INLINE explicit Int8Weights(const uint8_t* from)
      : all(hn::LoadU(TagI(), reinterpret_cast<const int32_t*>(from))) {}
};
struct Int8Inputs {
  VecI all;
  HWY_INLINE explicit Int8Inputs(const uint8_t* from) {
    uint32_t four;
    std::memcpy(&four, from, sizeof four);
    all = hn::Set(TagI(), static_cast<int32_t>(four ^ 0x80808080U));
  }
};
HWY_INLINE VecI plus_products(VecI sum, const Int8Inputs& x, const Int8Weights& w) {
  return VecI(vdotq_s32(sum.raw, vreinterpretq_s8_s32(x.all.raw), vreinterpretq_s8_s32(w.all.raw)));
}
#else
constexpr bool kSplits = false;
constexpr int kInt8Rows = 1, kInt8Panels = 1;
/// The bytes of a step, each in a number of its own.
struct Int8Weights {
  VecI each[4];
  HWY_INLINE explicit Int8Weights(const uint8_t* from) {
    const VecI all = hn::LoadU(TagI(), reinterpret_cast<const int32_t*>(from));
    each[0] = hn::ShiftRight<24>(hn::ShiftLeft<24>(all));
    each[1] = hn::ShiftRight<24>(hn::ShiftLeft<16>(all));
    each[2] = hn::ShiftRight<24>(hn::ShiftLeft<8>(all));
    each[3] = hn::ShiftRight<24>(all);
  }
};
struct Int8Inputs {
  VecI each[4];
  HWY_INLINE explicit Int8Inputs(const uint8_t* from) {
    for (int i = 0; i < 4; ++i) each[i] = hn::Set(TagI(), int32_t{from[i]});
  }
};
HWY_INLINE VecI plus_products(VecI sum, const Int8Inputs& x, const Int8Weights& w) {
  for (int i = 0; i < 4; ++i) sum = hn::Add(sum, hn::Mul(x.each[i], w.each[i]));
  return sum;
}
#endif

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
