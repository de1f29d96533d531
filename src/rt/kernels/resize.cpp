// Two rows of x become one between them, and its pixels those of a row of y.
#include "rt/kernels/resize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/resize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

HWY_INLINE void blend(const float* a, const float* b, const ResizeTap& tap, int64_t count,
                      float* y) {
  const TagF d;
  const VecF rest = hn::Set(d, tap.rest), share = hn::Set(d, tap.share);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, b + i), share, hn::Mul(hn::LoadU(d, a + i), rest)), d,
               y + i);
  for (; i < count; ++i) y[i] = a[i] * tap.rest + b[i] * tap.share;
}

void run_resize(const Resize& r, const Threads& threads, float* scratch) {
  constexpr double kWorth = 1 << 14;  // numbers that are worth a thread
  const int64_t in = r.w * r.c, out = r.ow * r.c;
  parallel_parts(
      threads, r.n * r.oh, rows_worth_a_thread(kWorth, static_cast<double>(in + out)),
      [&](int64_t part, int64_t begin, int64_t end) {
        float* const between = scratch + part * in;
        for (int64_t line = begin; line < end; ++line) {
          const ResizeTap& row = r.rows[line % r.oh];
          const float* const image = r.x + line / r.oh * r.h * in;
          blend(image + row.before * in, image + row.after * in, row, in, between);
          float* y = r.y + line * out;
          for (int64_t i = 0; i < r.ow; ++i, y += r.c) {
            const ResizeTap& tap = r.columns[i];
            const float *const a = between + tap.before * r.c, *const b = between + tap.after * r.c;
            if (r.c >= kLanes)
              blend(a, b, tap, r.c, y);
            else
              for (int64_t k = 0; k < r.c; ++k) y[k] = a[k] * tap.rest + b[k] * tap.share;
          }
        }
      });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_resize);

void resize(Isa isa, const Resize& resize, const Threads& threads, float* scratch) {
  run_resize_table.of(isa)(resize, threads, scratch);
}

}  // namespace brim::rt
#endif
