// Sums in i32 of products of pairs of i16, and in which vectors they are. Include it inside a
// foreach_target file only; a source that includes it defines HWY_WANT_AVX3_DL first.
#if defined(BRIM_INT8_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_INT8_SUMS_INL_H_
#undef BRIM_INT8_SUMS_INL_H_
#else
#define BRIM_INT8_SUMS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Sums = hn::CappedTag<int32_t, 16>;
using Sum = hn::Vec<Sums>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
/// sum + the products of pairs of i16.
HWY_INLINE Sum plus_pairs(Sum sum, Sum x, Sum w) {
#if HWY_TARGET <= HWY_AVX3_DL
  // No intrinsic: Highway 1.0 does not ask the compiler for avx512vnni, which this target has.
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
  return sum;
#elif HWY_TARGET <= HWY_AVX3
  return hn::Add(sum, Sum{_mm512_madd_epi16(x.raw, w.raw)});
#else
  // No intrinsics: GCC makes all products of a tile first, and then runs out of registers.
  __m256i products;
  asm("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0"
      : "+x"(sum.raw), "=&x"(products)
      : "x"(w.raw), "x"(x.raw));
  return sum;
#endif
}
#endif

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
