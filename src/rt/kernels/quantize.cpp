// One pass over numbers that become integers.
#include "rt/kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "rt/kernels/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

void run_quantize(int64_t count, const float* x, float inverse, int32_t zero_point, uint8_t* q,
                  const Threads& threads) {
  constexpr int64_t kGrain = int64_t{1} << 15;
  parallel_parts(threads, count, kGrain, [&](int64_t, int64_t begin, int64_t end) HWY_ATTR {
    const Quantizer to_u8(inverse, zero_point);
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) to_u8.store(hn::LoadU(TagF(), x + i), q + i);
    if (i < end) to_u8.store_part(load_part(x + i, end - i), end - i, q + i);
  });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_quantize);

void quantize(Isa isa, int64_t count, const float* x, float inverse, int32_t zero_point, uint8_t* q,
              const Threads& threads) {
  run_quantize_table.of(isa)(count, x, inverse, zero_point, q, threads);
}

}  // namespace brim::rt
#endif
