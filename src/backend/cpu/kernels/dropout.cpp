// dropout on the CPU: element i is decided by word i % 4 of Philox block i / 4, in every dtype.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "formula/philox.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void dropout(const Context&, const Tensor& tx, Tensor& ty, double p, const RandomKey& key) {
  constexpr int64_t kBlocks = 16, kGroup = 4 * kBlocks, kGrain = 256;
  const T* x = static_cast<const T*>(tx.raw());
  T* y = static_cast<T*>(ty.raw());
  const int64_t n = tx.numel();
  // Both sides are exact in f32 and f64, so every dtype and backend keeps the same elements.
  const double limit = p * 0x1p24;
  const uint32_t threshold = static_cast<uint32_t>(limit);
  const bool round_up = static_cast<double>(threshold) < limit;
  const uint32_t below = threshold + (round_up ? 1 : 0);  // dropped if word < below
  const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
  parallel_for((n + kGroup - 1) / kGroup, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      uint32_t word[kGroup];
      for (int64_t b = 0; b < kBlocks; ++b) {
        const formula::Words r =
            formula::random_block(key, static_cast<uint64_t>(group * kBlocks + b));
        for (int k = 0; k < 4; ++k) word[4 * b + k] = r.w[k] >> 8;
      }
      const int64_t at = group * kGroup, count = std::min(kGroup, n - at);
      for (int64_t i = 0; i < count; ++i) y[at + i] = word[i] < below ? T(0) : x[at + i] * scale;
    }
  });
}

void register_dropout() {
  backend::register_kernel("dropout", DeviceKind::cpu, DType::f32, &dropout<float>);
  backend::register_kernel("dropout", DeviceKind::cpu, DType::f64, &dropout<double>);
  register_through_f32<&dropout<float>>("dropout");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
HWY_EXPORT(register_dropout);
static const bool registered = (HWY_DYNAMIC_DISPATCH(register_dropout)(), true);
}  // namespace brim::cpu
#endif
