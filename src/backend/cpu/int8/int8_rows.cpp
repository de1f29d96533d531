// Register tiles: some rows times some strips of outputs, over all inputs.
#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/int8/int8_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/int8/int8_rows.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
constexpr bool kQuads = true;
#else
constexpr bool kQuads = false;
#endif
// Accumulators take 3/4 of 32 registers, or half of 16: products need some before they are added.
#if HWY_TARGET <= HWY_AVX3
constexpr int kAccumulators = 24, kMaxRows = 8, kStrips = 4;
#else
constexpr int kAccumulators = 8, kMaxRows = 4, kStrips = 2;
#endif

using Sums = hn::CappedTag<int32_t, 16>;
using Sum = hn::Vec<Sums>;
using Numbers = hn::Rebind<float, Sums>;
using Bytes = hn::Rebind<uint8_t, Sums>;

Int8Layout layout() {
  return {.group = kQuads ? 4 : 2, .lanes = static_cast<int64_t>(hn::Lanes(Sums()))};
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
using Inputs = Sum;   // a step's, for all outputs of a strip
using Weights = Sum;  // a step's

HWY_INLINE Inputs inputs_at(const char* x) {
  int32_t all;  // rows have no alignment
  hwy::CopyBytes<4>(x, &all);
  return hn::Set(Sums(), all);
}
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
#elif HWY_TARGET <= HWY_AVX3
  return hn::Add(sum, Sum{_mm512_madd_epi16(x.raw, w.raw)});
#else
  return hn::Add(sum, Sum{_mm256_madd_epi16(x.raw, w.raw)});
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

/// round(v * inverse) + zero_point in 0..255; 0 for NaN.
HWY_INLINE auto to_u8(hn::Vec<Numbers> v, hn::Vec<Numbers> inverse, int32_t zero_point) {
  const Numbers d;
  const hn::Rebind<uint32_t, Sums> du;
  const auto zero = static_cast<float>(zero_point);
  const auto least = hn::Set(d, -zero), most = hn::Set(d, 255 - zero);
  v = hn::Mul(v, inverse);
#if !HWY_ARCH_X86  // whose Max gives the second one then
  v = hn::IfThenElse(hn::Eq(v, v), v, least);
#endif
  v = hn::Min(hn::Max(v, least), most);
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

template <int R, int S>
HWY_INLINE void tile(const Int8Rows& r, int64_t row, int64_t strip, const Int8Finish& f, void* y,
                     int64_t ld) {
  const Sums di;
  const Numbers d;
  constexpr int64_t kGroup = kQuads ? 4 : 2;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  const int64_t bytes = lanes * kGroup, strip_bytes = r.steps * bytes, first = strip * lanes;
  constexpr int64_t kBytes = kQuads ? 1 : 2;  // of an input
  const char* from[R];
  for (int i = 0; i < R; ++i) from[i] = static_cast<const char*>(r.x) + r.rows[row + i] * kBytes;
  Sum acc[R][S];
  for (int s = 0; s < S; ++s) {
    const Sum start = hn::LoadU(di, f.start + first + s * lanes);
    for (int i = 0; i < R; ++i) acc[i][s] = start;
  }
  const int8_t* HWY_RESTRICT weights = r.weights + strip * strip_bytes;
  const int32_t* HWY_RESTRICT offsets = r.offsets;
  for (int64_t j = 0; j < r.steps; ++j, weights += bytes) {
    const int64_t offset = offsets[j] * kBytes;
    Weights w[S];
    for (int s = 0; s < S; ++s) w[s] = weights_at(weights + s * strip_bytes);
    for (int i = 0; i < R; ++i) {
      const Inputs x = inputs_at(from[i] + offset);
      for (int s = 0; s < S; ++s) acc[i][s] = plus_products(acc[i][s], x, w[s]);
    }
  }
  const auto least = hn::Set(d, f.least), inverse = hn::Set(d, f.inverse);
  for (int s = 0; s < S; ++s) {
    const int64_t output = first + s * lanes;
    const auto scale = hn::LoadU(d, f.scale + output), shift = hn::LoadU(d, f.shift + output);
    for (int i = 0; i < R; ++i) {
      const auto v = hn::Max(hn::MulAdd(hn::ConvertTo(d, acc[i][s]), scale, shift), least);
      const int64_t place = i * ld + output;
      if (f.inverse == 0)
        hn::StoreU(v, d, static_cast<float*>(y) + place);
      else
        hn::StoreU(to_u8(v, inverse, f.zero_point), Bytes(), static_cast<uint8_t*>(y) + place);
    }
  }
}

/// All rows times S strips.
template <int S>
HWY_INLINE void strips(const Int8Rows& r, int64_t strip, const Int8Finish& f, void* y, int64_t ld) {
  constexpr int kRows = kAccumulators / S < kMaxRows ? kAccumulators / S : kMaxRows;
  const int64_t step = ld * (f.inverse == 0 ? 4 : 1);
  const auto at = [&](int64_t row) { return static_cast<char*>(y) + row * step; };
  int64_t row = 0;
  for (; row + kRows <= r.count; row += kRows) tile<kRows, S>(r, row, strip, f, at(row), ld);
  for (; row + 4 <= r.count && kRows > 4; row += 4) tile<4, S>(r, row, strip, f, at(row), ld);
  for (; row + 2 <= r.count; row += 2) tile<2, S>(r, row, strip, f, at(row), ld);
  if (row < r.count) tile<1, S>(r, row, strip, f, at(row), ld);
}

void rows_of(const Int8Rows& r, const Int8Finish& f, void* y, int64_t ld) {
  int64_t strip = 0;
  for (; strip + kStrips <= r.strips; strip += kStrips) strips<kStrips>(r, strip, f, y, ld);
  for (; strip + 2 <= r.strips && kStrips > 2; strip += 2) strips<2>(r, strip, f, y, ld);
  for (; strip < r.strips; ++strip) strips<1>(r, strip, f, y, ld);
}

void quantized(const float* x, uint8_t* q, int64_t n, float inverse, int32_t zero_point) {
  const Numbers d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, inverse);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(to_u8(hn::LoadU(d, x + i), factor, zero_point), Bytes(), q + i);
  if (i == n) return;
  float in[16] = {};
  uint8_t out[16];
  for (int64_t k = i; k < n; ++k) in[k - i] = x[k];
  hn::StoreU(to_u8(hn::LoadU(d, in), factor, zero_point), Bytes(), out);
  for (int64_t k = i; k < n; ++k) q[k] = out[k - i];
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(layout);
HWY_EXPORT(rows_of);
HWY_EXPORT(quantized);

Int8Layout int8_layout() { return HWY_DYNAMIC_DISPATCH(layout)(); }

void int8_rows(const Int8Rows& rows, const Int8Finish& finish, void* y, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(rows_of)(rows, finish, y, ld);
}

void quantize_run(const float* x, uint8_t* q, int64_t n, float inverse, int32_t zero_point) {
  HWY_DYNAMIC_DISPATCH(quantized)(x, q, n, inverse, zero_point);
}

}  // namespace brim::cpu
#endif
