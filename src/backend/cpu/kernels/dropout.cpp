// dropout on the CPU: element i is decided by word i % 4 of Philox block i / 4, in every dtype.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dropout.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/fused/chain.h"
#include "backend/kernel.h"
#include "backend/types.h"
#include "formula/philox.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// n elements, of which x[0] is number `first`.
template <class T>
void dropout_run(const void* from, void* to, int64_t first, int64_t n, double p,
                 const RandomKey& key) {
  constexpr int64_t kBlocks = 16, kGroup = 4 * kBlocks;
  using A = formula::Arithmetic<T>;
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  const uint32_t below = formula::drop_limit(p);
  const A scale = p < 1 ? static_cast<A>(1 / (1 - p)) : A(0);
  for (int64_t i = 0; i < n;) {
    const int64_t block = (first + i) / 4, skipped = (first + i) % 4;
    uint32_t word[kGroup];
    for (int64_t b = 0; b < kBlocks; ++b) {
      const formula::Words r = formula::random_block(key, static_cast<uint64_t>(block + b));
      for (int k = 0; k < 4; ++k) word[4 * b + k] = r.w[k] >> 8;
    }
    const int64_t count = std::min(kGroup - skipped, n - i);
    for (int64_t k = 0; k < count; ++k)
      y[i + k] = word[skipped + k] < below ? T(A(0)) : T(static_cast<A>(x[i + k]) * scale);
    i += count;
  }
}

template <class T>
void dropout(const Context&, const Tensor& x, Tensor& y, double p, const RandomKey& key) {
  constexpr int64_t kGroup = 64, kGrain = 256;
  const int64_t n = x.numel();
  const T* from = static_cast<const T*>(x.raw());
  T* to = static_cast<T*>(y.raw());
  parallel_for((n + kGroup - 1) / kGroup, kGrain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kGroup, last = std::min(end * kGroup, n);
    dropout_run<T>(from + first, to + first, first, last - first, p, key);
  });
}

void register_dropout() {
  backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
    backend::register_kernel("dropout", DeviceKind::cpu, dtype_of<T>, &dropout<T>);
    backend::register_dropout_link(dtype_of<T>, &dropout_run<T>);
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_dropout);
#endif
