// Vectors of numbers that are stored in fewer bits, read and written; included once per instruction
// set.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <brim/core/dtype.h>

#if defined(BRIM_CPU_WIDEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_WIDEN_INL_H
#undef BRIM_CPU_WIDEN_INL_H
#else
#define BRIM_CPU_WIDEN_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What Highway computes in place of missing instructions cuts off digits and knows no infinities.
#if HWY_TARGET != HWY_SCALAR && \
    (HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)))
constexpr bool kConvertsHalf = true;
#else
constexpr bool kConvertsHalf = false;
#endif

/// Whether load() takes numbers stored as In for floats.
template <class In>
constexpr bool kLoads = kConvertsHalf || !std::is_same_v<In, Half>;

/// A vector of numbers stored as In, each of which its type holds.
template <class D, class In>
HWY_INLINE hn::Vec<D> load(D d, const In* x) {
  using T = hn::TFromD<D>;
  static_assert(kLoads<In>);
  constexpr bool kIsHalf = std::is_same_v<In, Half>, kIsBFloat16 = std::is_same_v<In, BFloat16>;
  if constexpr (std::is_same_v<In, T>) {
    return hn::LoadU(d, x);
  } else if constexpr (!kIsHalf && !kIsBFloat16) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<In, D>(), x));
  } else if constexpr (!std::is_same_v<T, float>) {
    return hn::PromoteTo(d, load(hn::Rebind<float, D>(), x));
  } else {
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(x));
    if constexpr (kIsHalf)
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
    else
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
  }
}

/// The first `count` numbers of a vector, then `pad`.
template <class D, class In>
HWY_INLINE hn::Vec<D> load_part(D d, const In* x, int64_t count, In pad) {
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(hn::TFromD<D>);
  HWY_ALIGN In part[kLanes];
  std::fill_n(part, kLanes, pad);
  std::copy_n(x, std::min(count, kLanes), part);
  return load(d, part);
}

/// Stores two vectors; those of f32 in 16 bits rounded to nearest even.
template <class D>
HWY_INLINE void store_two(D d, hn::Vec<D> first, hn::Vec<D> second, hn::TFromD<D>* to) {
  hn::StoreU(first, d, to);
  hn::StoreU(second, d, to + hn::Lanes(d));
}

#if HWY_TARGET != HWY_SCALAR
/// Bits whose upper halves are those of BFloat16(x).
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat_bits(D, hn::Vec<D> number) {
  const hn::RebindToUnsigned<D> bits;
  const auto x = hn::BitCast(bits, number);
  const auto odd = hn::And(hn::ShiftRight<16>(x), hn::Set(bits, 1));
  const auto nan = hn::RebindMask(bits, hn::IsNaN(number));
  return hn::IfThenElse(nan, hn::Or(x, hn::Set(bits, 0x400000)),
                        hn::Add(hn::Add(x, hn::Set(bits, 0x7fff)), odd));
}

template <class D>
HWY_INLINE void store_two(D d, hn::Vec<D> first, hn::Vec<D> second, BFloat16* to) {
  const hn::Repartition<uint16_t, D> halves;
  hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, bfloat_bits(d, second)),
                           hn::BitCast(halves, bfloat_bits(d, first))),
             halves, reinterpret_cast<uint16_t*>(to));
}
template <class D>
HWY_INLINE void store_two(D d, hn::Vec<D> first, hn::Vec<D> second, Half* to) {
  static_assert(kConvertsHalf || sizeof(D) == 0);  // checked only where it is used
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::RebindToUnsigned<decltype(half)> bits;
  uint16_t* const p = reinterpret_cast<uint16_t*>(to);
  hn::StoreU(hn::BitCast(bits, hn::DemoteTo(half, first)), bits, p);
  hn::StoreU(hn::BitCast(bits, hn::DemoteTo(half, second)), bits, p + hn::Lanes(d));
}
#endif

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
