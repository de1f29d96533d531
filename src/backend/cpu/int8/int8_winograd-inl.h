// The linear maps of F(4 x 4, 3 x 3) in integers, by interpolation at 0, +-1, +-2 and infinity (see
// int8_winograd.h). Include it inside a foreach_target file only.
#if defined(BRIM_INT8_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_INT8_WINOGRAD_INL_H_
#undef BRIM_INT8_WINOGRAD_INL_H_
#else
#define BRIM_INT8_WINOGRAD_INL_H_
#endif

#include "backend/cpu/conv/winograd_tiles.h"
#include "backend/cpu/int8/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kIn = kWinogradIn, kOut = kWinogradOut, kPoints = kWinogradPoints;

using Words = hn::CappedTag<int16_t, 16>;  // the transforms' numbers
using Word = hn::Vec<Words>;

template <class V>
HWY_INLINE V twice(V v) {
  return hn::Add(v, v);
}

/// B' d: of 6 values; magnitudes grow 10 times at most.
HWY_INLINE void input_line(const Word* d, Word* r, int step) {
  const Word even = hn::Sub(d[4], d[2]), odd = hn::Sub(d[3], d[1]);
  r[0] = hn::Add(hn::ShiftLeft<2>(hn::Sub(d[0], d[2])), even);
  const Word a = hn::Sub(d[4], hn::ShiftLeft<2>(d[2])), b = hn::Sub(d[3], hn::ShiftLeft<2>(d[1]));
  r[1 * step] = hn::Add(a, b);
  r[2 * step] = hn::Sub(a, b);
  r[3 * step] = hn::Add(even, twice(odd));
  r[4 * step] = hn::Sub(even, twice(odd));
  r[5 * step] = hn::Sub(hn::Sub(d[5], d[3]), hn::ShiftLeft<2>(odd));
}

/// G g times 4, -6, -6, 24, 24, 1: of 3 weights; magnitudes grow 7 times at most.
HWY_INLINE void weight_line(const Word* g, Word* r, int step) {
  const Word ends = hn::Add(g[0], g[2]), far = hn::Add(g[0], hn::ShiftLeft<2>(g[2]));
  r[0] = g[0];
  r[1 * step] = hn::Add(ends, g[1]);
  r[2 * step] = hn::Sub(ends, g[1]);
  r[3 * step] = hn::Add(far, twice(g[1]));
  r[4 * step] = hn::Sub(far, twice(g[1]));
  r[5 * step] = g[2];
}

/// A' m of products whose weights were multiplied so: 4 outputs, times 24, 12, 6 and 6.
HWY_INLINE void output_line(const Sum* m, Sum* y, int step) {
  const Sum p = hn::Add(m[1], m[2]), q = hn::Sub(m[1], m[2]);
  const Sum r = hn::Add(m[3], m[4]), s = hn::Sub(m[3], m[4]);
  const Sum first = hn::Sub(hn::Add(twice(m[0]), m[0]), twice(p));
  const Sum last = hn::Add(hn::Add(twice(m[5]), m[5]), s);
  y[0] = hn::Add(twice(first), r);
  y[1 * step] = hn::Sub(s, twice(q));
  y[2 * step] = hn::Sub(r, p);
  y[3 * step] = hn::Sub(twice(last), q);
}
/// 24, 12, 6 and 6 are 3 times 2 to these.
constexpr int kShifts[kOut] = {3, 2, 1, 1};
constexpr uint32_t kInverseOf9 = 0x38E38E39;
static_assert(kInverseOf9 * 9 == 1);

template <int kShift>
HWY_INLINE Sum divided(Sum v) {
  return hn::ShiftRight<kShift>(hn::Mul(v, hn::Set(Sums(), static_cast<int32_t>(kInverseOf9))));
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
