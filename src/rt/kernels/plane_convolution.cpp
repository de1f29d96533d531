// A part of an image is copied with its padding, so that windows need no borders; tiles are two
// rows of sums of a few outputs, which are bounded, pooled, and become pixels one after the other.
#include "rt/kernels/plane_convolution.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/plane_convolution.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Rows of sums that the registers hold, for all outputs of a tile and two vectors of columns.
constexpr int kSumRows = kLanes == 16 ? 2 : 1;

constexpr int kOutputs = static_cast<int>(kPlaneOutputs);

/// Rows from `first` on, of which some lie above or below the image.
void copy_planes(const PlaneConvolution& k, const PlanePlan& plan, int64_t image, int64_t first,
                 int64_t rows, float* HWY_RESTRICT to) {
  const TagF d;
  const int64_t left = std::min(k.a.left, plan.pitch), count = std::min(k.w, plan.pitch - left);
  for (int64_t channel = 0; channel < k.c; ++channel)
    for (int64_t r = 0; r < rows; ++r) {
      float* HWY_RESTRICT line = to + (channel * plan.rows + r) * plan.pitch;
      for (int64_t i = 0; i < plan.pitch; i += kLanes) hn::StoreU(hn::Zero(d), d, line + i);
      const int64_t y = first + r;
      if (y < 0 || y >= k.h) continue;
      const float* HWY_RESTRICT from = k.x + image * k.image + channel * k.plane + y * k.row;
      line += left;
      int64_t i = 0;
      if (k.column == 1) {
        for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, line + i);
        if (i < count) store_part(load_part(from + i, count - i), count - i, line + i);
        continue;
      }
      for (; i < count; ++i, from += k.column) line[i] = *from;
    }
}

/// Two rows of sums of a tile's outputs, within bounds; x is where the first window begins.
void sums_of_band(const PlaneConvolution& k, const PlanePlan& plan, const float* HWY_RESTRICT x,
                  const float* HWY_RESTRICT weights, const float* HWY_RESTRICT bias,
                  float* HWY_RESTRICT sums) {
  const TagF d;
  // All of a tile is in registers, which compilers see once its loops are unrolled.
  for (int64_t row = 0; row < 2; row += kSumRows)
    for (int64_t at = 0; at < k.columns(); at += 2 * kLanes) {
      VecF all[kOutputs][kSumRows][2];
#pragma GCC unroll 6
      for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 2
        for (int r = 0; r < kSumRows; ++r) all[o][r][0] = all[o][r][1] = hn::Set(d, bias[o]);
      const float* HWY_RESTRICT w = weights;
      for (int64_t channel = 0; channel < k.c; ++channel)
        for (int64_t ky = 0; ky < k.a.kernel_h; ++ky) {
          const float* HWY_RESTRICT line = x + (channel * plan.rows + row + ky) * plan.pitch + at;
          for (int64_t kx = 0; kx < k.a.kernel_w; ++kx, ++line, w += kOutputs) {
            VecF pixels[kSumRows][2];
#pragma GCC unroll 2
            for (int r = 0; r < kSumRows; ++r) {
              pixels[r][0] = hn::LoadU(d, line + r * plan.pitch);
              pixels[r][1] = hn::LoadU(d, line + r * plan.pitch + kLanes);
            }
#pragma GCC unroll 6
            for (int o = 0; o < kOutputs; ++o) {
              const VecF weight = hn::Set(d, w[o]);
#pragma GCC unroll 2
              for (int r = 0; r < kSumRows; ++r) {
                all[o][r][0] = hn::MulAdd(pixels[r][0], weight, all[o][r][0]);
                all[o][r][1] = hn::MulAdd(pixels[r][1], weight, all[o][r][1]);
              }
            }
          }
        }
      const float low = static_cast<float>(k.a.low), high = static_cast<float>(k.a.high);
#pragma GCC unroll 6
      for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 2
        for (int r = 0; r < kSumRows; ++r) {
          float* const to = sums + (o * 2 + row + r) * plan.pitch + at;
          hn::StoreU(clip(all[o][r][0], low, high), d, to);
          hn::StoreU(clip(all[o][r][1], low, high), d, to + kLanes);
        }
    }
}

/// NaN wins, and stays.
HWY_INLINE VecF larger(VecF a, VecF b) {
  return hn::IfThenElse(hn::Eq(b, b), hn::IfThenElse(hn::Gt(b, a), b, a), b);
}

/// The largest of 2 x 2 sums of an output, in place.
HWY_INLINE void pool(const PlaneConvolution& k, const PlanePlan& plan, float* sums) {
  const TagF d;
  for (int64_t at = 0; at < k.columns(); at += 2 * kLanes) {
    const auto column = [&](int64_t i) HWY_ATTR {
      return larger(hn::LoadU(d, sums + i), hn::LoadU(d, sums + plan.pitch + i));
    };
    const VecF low = column(at), high = column(at + kLanes);
#if HWY_TARGET == HWY_SCALAR
    const VecF even = low, odd = high;
#else
    const VecF even = hn::ConcatEven(d, high, low), odd = hn::ConcatOdd(d, high, low);
#endif
    hn::StoreU(larger(even, odd), d, sums + at / 2);
  }
}

/// `count` outputs of a tile: to pixels.
void finish_band(const PlaneConvolution& k, const PlanePlan& plan, int64_t first, int64_t rows,
                 int64_t count, float* HWY_RESTRICT sums, float* HWY_RESTRICT y) {
  if (k.a.is_pooled)
    for (int64_t o = 0; o < count; ++o) pool(k, plan, sums + o * 2 * plan.pitch);
  for (int64_t r = 0; r < rows; ++r, y += k.ow * k.o)
    for (int64_t o = 0; o < count; ++o) {
      const float* HWY_RESTRICT from = sums + (o * 2 + r) * plan.pitch;
      float* HWY_RESTRICT to = y + first + o;
      for (int64_t i = 0; i < k.ow; ++i, to += k.o) *to = from[i];
    }
}

void run_plane_convolution(const PlaneConvolution& k, const Threads& threads, float* scratch) {
  const PlanePlan plan(k);
  constexpr double kWork = 1 << 18;  // multiply-adds that are worth a thread
  const int64_t bands = k.bands(), outputs = k.outputs();
  const int64_t grain = rows_worth_a_thread(
      kWork, 2.0 * static_cast<double>(k.columns()) * static_cast<double>(k.taps() * outputs));
  parallel_parts(threads, k.n * bands, grain, [&](int64_t part, int64_t begin, int64_t end) {
    float* const planes = scratch + part * plan.scratch;
    float* const sums = planes + plan.planes;
    for (int64_t next; begin < end; begin = next) {
      const int64_t image = begin / bands, first = begin % bands;
      next = std::min(end, (image + 1) * bands);
      copy_planes(k, plan, image, 2 * first - k.a.top, 2 * (next - begin) + k.a.kernel_h - 1,
                  planes);
      for (int64_t band = first; begin + (band - first) < next; ++band) {
        const float* const x = planes + 2 * (band - first) * plan.pitch;
        const int64_t row = k.a.is_pooled ? band : 2 * band;
        const int64_t rows = k.a.is_pooled ? 1 : std::min<int64_t>(2, k.oh - row);
        float* const y = k.y + (image * k.oh + row) * k.ow * k.o;
        for (int64_t o = 0; o < outputs; o += kPlaneOutputs) {
          sums_of_band(k, plan, x, k.weights + o * k.taps(), k.bias + o, sums);
          finish_band(k, plan, o, rows, std::min(kPlaneOutputs, k.o - o), sums, y);
        }
      }
    }
  });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_plane_convolution);

size_t plane_convolution_scratch(const PlaneConvolution& conv, int threads) {
  return static_cast<size_t>(PlanePlan(conv).scratch) * sizeof(float) *
         static_cast<size_t>(threads);
}

void convolve_planes(Isa isa, const PlaneConvolution& conv, const Threads& threads,
                     float* scratch) {
  run_plane_convolution_table.of(isa)(conv, threads, scratch);
}

}  // namespace brim::rt
#endif
