// Register tiles: some rows times some strips of outputs, over all inputs.
#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/int8/int8_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/int8/int8-inl.h"
#include "backend/cpu/int8/int8_rows.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Accumulators take 3/4 of 32 registers, or half of 16: products need some before they are added.
#if HWY_TARGET <= HWY_AVX3
constexpr int kAccumulators = 24, kMaxRows = 8, kStrips = 4;
#else
constexpr int kAccumulators = 8, kMaxRows = 4, kStrips = 2;
#endif

Int8Layout layout() { return {.group = kGroup, .lanes = static_cast<int64_t>(hn::Lanes(Sums()))}; }

template <int R, int S>
HWY_INLINE void tile(const Int8Rows& r, int64_t row, int64_t strip, const Int8Finish& f, void* y,
                     int64_t ld) {
  const Sums di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  const int64_t strip_bytes = r.strip_bytes, first = strip * lanes;
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
  for (int64_t j = 0; j < r.steps; ++j, weights += r.step_bytes) {
    const int64_t offset = offsets[j] * kBytes;
    Weights w[S];
    for (int s = 0; s < S; ++s) w[s] = weights_at(weights + s * strip_bytes);
    for (int i = 0; i < R; ++i) {
      const Inputs x = inputs_at(from[i] + offset);
      for (int s = 0; s < S; ++s) acc[i][s] = plus_products(acc[i][s], x, w[s]);
    }
  }
  for (int s = 0; s < S; ++s) {
    const OutputFinish finish(f, first + s * lanes);
    for (int i = 0; i < R; ++i) finish.store_sum(acc[i][s], y, (row + i) * ld + finish.output);
  }
}

/// All rows times S strips.
template <int S>
HWY_INLINE void strips(const Int8Rows& r, int64_t strip, const Int8Finish& f, void* y, int64_t ld) {
  constexpr int kRows = kAccumulators / S < kMaxRows ? kAccumulators / S : kMaxRows;
  int64_t row = 0;
  for (; row + kRows <= r.count; row += kRows) tile<kRows, S>(r, row, strip, f, y, ld);
  for (; row + 4 <= r.count && kRows > 4; row += 4) tile<4, S>(r, row, strip, f, y, ld);
  for (; row + 2 <= r.count; row += 2) tile<2, S>(r, row, strip, f, y, ld);
  if (row < r.count) tile<1, S>(r, row, strip, f, y, ld);
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
