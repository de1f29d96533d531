#include "backend/cpu/reduce/narrow_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce/narrow_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/map_run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlock = 2048;  // summed in f32, or widened in the L1 cache

/// Sum of the squares of factor x.
template <class W>
float block_square_sum(const W* x, int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = even;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto v = hn::Mul(load(d, x + i), f), w = hn::Mul(load(d, x + i + lanes), f);
    even = hn::MulAdd(v, v, even);
    odd = hn::MulAdd(w, w, odd);
  }
  for (; i < n; i += lanes) {
    const auto v = hn::Mul(load_part(d, x + i, n - i, W(0.0f)), f);
    even = hn::MulAdd(v, v, even);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

template <class W>
double square_sum_of(const W* x, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    if constexpr (kInRegisters<W>) {
      float factor = 1, sum = block_square_sum(x + i, count, 1);
      if (!(sum > 0x1p-100f) || std::isinf(sum)) {
        // Squares of bf16 may leave the range of f32 on both sides.
        factor = sum > 1 ? 0x1p-70f : 0x1p+100f;
        sum = block_square_sum(x + i, count, factor);
      }
      total += static_cast<double>(sum) / (static_cast<double>(factor) * factor);
    } else {
      float wide[kBlock];
      convert_run(x + i, wide, count);
      for (int64_t k = 0; k < count; ++k)
        total += static_cast<double>(wide[k]) * static_cast<double>(wide[k]);
    }
  }
  return total;
}

template <class W>
void scale_run_of(W* x, float factor, int64_t n) {
  if constexpr (kInRegisters<W>) {
    const hn::ScalableTag<float> d;
    const auto f = hn::Set(d, factor);
    const W* const from = x;
    map_run<1>({from}, n, x, [&](const W* const(&p)[1], int64_t i) HWY_ATTR {
      return hn::Mul(load(d, p[0] + i), f);
    });
  } else {
    float wide[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      convert_run(x + i, wide, count);
      for (int64_t k = 0; k < count; ++k) wide[k] *= factor;
      convert_run(wide, x + i, count);
    }
  }
}

double half_square_sum(const Half* x, int64_t n) { return square_sum_of(x, n); }
double bfloat_square_sum(const BFloat16* x, int64_t n) { return square_sum_of(x, n); }
void scale_half(Half* x, float factor, int64_t n) { scale_run_of(x, factor, n); }
void scale_bfloat(BFloat16* x, float factor, int64_t n) { scale_run_of(x, factor, n); }

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(half_square_sum);
HWY_EXPORT(bfloat_square_sum);
HWY_EXPORT(scale_half);
HWY_EXPORT(scale_bfloat);

double square_sum(const Half* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(half_square_sum)(x, n); }
double square_sum(const BFloat16* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(bfloat_square_sum)(x, n);
}
void scale_run(Half* x, float factor, int64_t n) { HWY_DYNAMIC_DISPATCH(scale_half)(x, factor, n); }
void scale_run(BFloat16* x, float factor, int64_t n) {
  HWY_DYNAMIC_DISPATCH(scale_bfloat)(x, factor, n);
}

}  // namespace brim::cpu
#endif
