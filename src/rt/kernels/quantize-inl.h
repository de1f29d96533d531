// f32 to u8. Include it inside a foreach_target file only.
#if defined(BRIM_RT_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_QUANTIZE_INL_H_
#undef BRIM_RT_QUANTIZE_INL_H_
#else
#define BRIM_RT_QUANTIZE_INL_H_
#endif

#include <cstring>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

using TagI = hn::Rebind<int32_t, TagF>;
using VecI = hn::Vec<TagI>;
using TagU8 = hn::Rebind<uint8_t, TagF>;

/// round(v * inverse) + zero_point in 0..255, half to even; 0 for NaN.
class Quantizer {
 public:
  HWY_INLINE Quantizer(float inverse, int32_t zero_point)
      : inverse_(hn::Set(TagF(), inverse)),
        min_(hn::Set(TagF(), -static_cast<float>(zero_point))),
        max_(hn::Set(TagF(), 255.0F - static_cast<float>(zero_point))),
        bits_(hn::Set(TagI(), kBits - zero_point)) {}

  HWY_INLINE hn::Vec<TagU8> operator()(VecF v) const {
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
  /// Of the first `count` numbers of a vector.
  HWY_INLINE void store_part(VecF v, int64_t count, uint8_t* to) const {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    hn::BlendedStore((*this)(v), hn::FirstN(TagU8(), static_cast<size_t>(count)), TagU8(), to);
#else
    HWY_ALIGN uint8_t all[kPanel];
    hn::StoreU((*this)(v), TagU8(), all);
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
  HWY_INLINE void store(VecF v, uint8_t* to) const { hn::StoreU((*this)(v), TagU8(), to); }

 private:
  // 1.5 x 2^23: behind it a float has no room for a fraction, and the whole number is in its bits.
  static constexpr float kWhole = 12582912;
  static constexpr int32_t kBits = 0x4B400000;
  VecF inverse_, min_, max_;
  VecI bits_;
};

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
