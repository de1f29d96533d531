// f32 to u8. Include it inside a foreach_target file only.
#if defined(BRIM_RT_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_QUANTIZE_INL_H_
#undef BRIM_RT_QUANTIZE_INL_H_
#else
#define BRIM_RT_QUANTIZE_INL_H_
#endif

#include <cstring>
#include <limits>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

using TagI = hn::Rebind<int32_t, TagF>;
using VecI = hn::Vec<TagI>;
using TagU8 = hn::Rebind<uint8_t, TagF>;

// AVX2 rounds to integers and packs them with saturation, in fewer instructions than others take.
#undef BRIM_RT_PACKS_BYTES
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
#define BRIM_RT_PACKS_BYTES 1
#else
#define BRIM_RT_PACKS_BYTES 0
#endif

/// round(v * inverse) + zero_point in 0..255, half to even, of v within [low, high]; 0 for NaN.
class Quantizer {
 public:
  HWY_INLINE Quantizer(float inverse, int32_t zero_point,
                       float low = -std::numeric_limits<float>::infinity(),
                       float high = std::numeric_limits<float>::infinity())
      : low_(low), high_(high), inverse_(hn::Set(TagF(), inverse)) {
    const float zero = static_cast<float>(zero_point);
    min_ = hn::Set(TagF(), -zero);
    max_ = hn::Set(TagF(), 255.0F - zero);
    bits_ = hn::Set(TagI(), kBits - zero_point);
#if BRIM_RT_PACKS_BYTES
    min_ = hn::Set(TagF(), low_);
    max_ = hn::Min(max_, hn::Set(TagF(), high_ * inverse));
    bits_ = hn::Set(TagI(), zero_point);
#endif
  }

#if BRIM_RT_PACKS_BYTES
  HWY_INLINE hn::Vec<TagU8> operator()(VecF v) const { return of_clipped(hn::Max(min_, v)); }
  /// Of what is within the bounds already. NaN and what is below all integers become the least one,
  /// and packs end at 0 and 255.
  HWY_INLINE hn::Vec<TagU8> of_clipped(VecF v) const {
    v = hn::Min(max_, hn::Mul(v, inverse_));
    const __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v.raw), bits_.raw);
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    return hn::Vec<TagU8>{_mm_packus_epi16(words, words)};
  }
#else
  HWY_INLINE hn::Vec<TagU8> operator()(VecF v) const { return of_clipped(clip(v, low_, high_)); }
  /// Of what is within the bounds already.
  HWY_INLINE hn::Vec<TagU8> of_clipped(VecF v) const {
    const TagF d;
    v = hn::Mul(v, inverse_);
#if !HWY_ARCH_X86 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    v = hn::IfThenElse(hn::Eq(v, v), v, min_);
#endif
    v = hn::Min(hn::Max(v, min_), max_);  // on x86 the bound for NaN
    const auto q = hn::Sub(hn::BitCast(TagI(), hn::Add(v, hn::Set(d, kWhole))), bits_);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // TruncateTo is wrong for AVX3_DL in Highway 1.0.3
    return hn::Vec<TagU8>{_mm512_cvtepi32_epi8(q.raw)};
#else
    return hn::DemoteTo(TagU8(), q);
#endif
  }
#endif
  /// Of the first `count` numbers of a vector.
  HWY_INLINE void store_part(VecF v, int64_t count, uint8_t* to) const {
    store_part((*this)(v), count, to);
  }
  HWY_INLINE void store(VecF v, uint8_t* to) const { hn::StoreU((*this)(v), TagU8(), to); }
  static HWY_INLINE void store_part(hn::Vec<TagU8> q, int64_t count, uint8_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    hn::BlendedStore(q, hn::FirstN(TagU8(), static_cast<size_t>(count)), TagU8(), to);
#else
    HWY_ALIGN uint8_t all[kPanel];
    hn::StoreU(q, TagU8(), all);
    uint64_t bits;
    std::memcpy(&bits, all, sizeof bits);
    if (count & 4) {
      std::memcpy(to, &bits, 4);
      bits >>= 32;
      to += 4;
    }
    if (count & 2) {
      std::memcpy(to, &bits, 2);
      bits >>= 16;
      to += 2;
    }
    if (count & 1) *to = static_cast<uint8_t>(bits);
#endif
  }

 private:
  // 1.5 x 2^23: behind it a float has no room for a fraction, and the whole number is in its bits.
  static constexpr float kWhole = 12582912;
  static constexpr int32_t kBits = 0x4B400000;
  float low_, high_;
  VecF inverse_, min_, max_;
  VecI bits_;
};

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
