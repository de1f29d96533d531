// One pass over numbers that become integers.
#include "rt/kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

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

/// Pixels [begin, end) of an image.
HWY_INLINE void quantize_pixels(const Quantizer& to_u8, int64_t pixels, int64_t begin, int64_t end,
                                const float* x, uint8_t* q) {
  const float* const planes[3] = {x, x + pixels, x + 2 * pixels};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    hn::StoreInterleaved3(to_u8(hn::LoadU(TagF(), planes[0] + i)),
                          to_u8(hn::LoadU(TagF(), planes[1] + i)),
                          to_u8(hn::LoadU(TagF(), planes[2] + i)), TagU8(), q + 3 * i);
  for (; i < end; ++i)
    for (int c = 0; c < 3; ++c) to_u8.store_part(load_part(planes[c] + i, 1), 1, q + 3 * i + c);
}

void run_quantize_colours(const ColourImages& k, float inverse, int32_t zero_point,
                          const Threads& threads) {
  constexpr int64_t kGrain = int64_t{1} << 14;
  parallel_parts(threads, k.n * k.pixels, kGrain, [&](int64_t, int64_t begin, int64_t end) {
    const Quantizer to_u8(inverse, zero_point);
    while (begin < end) {
      const int64_t image = begin / k.pixels, first = begin % k.pixels;
      const int64_t count = std::min(end - begin, k.pixels - first), at = image * 3 * k.pixels;
      quantize_pixels(to_u8, k.pixels, first, first + count, k.x + at, k.q + at);
      begin += count;
    }
  });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_quantize);
BRIM_RT_ISA_TABLE(run_quantize_colours);

void quantize(Isa isa, int64_t count, const float* x, float inverse, int32_t zero_point, uint8_t* q,
              const Threads& threads) {
  run_quantize_table.of(isa)(count, x, inverse, zero_point, q, threads);
}

void quantize_colours(Isa isa, const ColourImages& images, float inverse, int32_t zero_point,
                      const Threads& threads) {
  run_quantize_colours_table.of(isa)(images, inverse, zero_point, threads);
}

}  // namespace brim::rt
#endif
