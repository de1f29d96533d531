// Convolution with 3 x 3 kernels and stride 1 by Winograd's F(4 x 4, 3 x 3) (Lavin and Gray,
// arXiv:1509.09308), with weights that were transformed beforehand. Blocks of tiles go through all
// three steps, so that what is between them stays in the cache.
#include "rt/kernels/convolution.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/conv/conv_winograd-inl.h"
#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

namespace wino = cpu::HWY_NAMESPACE;
using wino::kIn;
using wino::kOut;

struct Tiles {
  const Convolution& k;
  int64_t rows, columns;
  explicit Tiles(const Convolution& conv)
      : k(conv), rows((conv.oh + kOut - 1) / kOut), columns((conv.ow + kOut - 1) / kOut) {}

  struct Position {
    int64_t image, y, x;  // of the tile's first output
  };
  Position of(int64_t tile) const {
    return {tile / (rows * columns), tile / columns % rows * kOut, tile % columns * kOut};
  }

  void transform(int64_t begin, int64_t end, float* v, int64_t step) const {
    const auto line = [](const VecF* d, VecF* r, int s) HWY_ATTR { wino::input_line(d, r, s); };
    for (int64_t t = begin; t < end; ++t, v += k.c) {
      const Position p = of(t);
      const int64_t y = p.y - k.a.top, x = p.x - k.a.left;
      const cpu::Patch patch(y, x, k.h, k.w, kIn);
      const float* const from = k.x + ((p.image * k.h + y) * k.w + x) * k.c;
      const auto to = wino::Transformed::rows(v, step, k.c);
      if (patch.whole(kIn))
        wino::transform_tile<kIn, true>(from, k.w * k.c, k.c, patch, to, line);
      else
        wino::transform_tile<kIn, false>(from, k.w * k.c, k.c, patch, to, line);
    }
  }

  /// Outputs [at, at + count) of tiles from their products at m[point * step].
  void transform_back(int64_t begin, int64_t end, int64_t at, int64_t count, const float* m,
                      int64_t step) const {
    for (int64_t t = begin; t < end; ++t, m += count) {
      const Position p = of(t);
      const cpu::Patch patch(p.y, p.x, k.oh, k.ow, kOut);
      const int64_t to = ((p.image * k.oh + p.y) * k.ow + p.x) * k.o + at;
      if (patch.whole(kOut) && !k.residual)
        finish<true, false>(m, step, count, at, to, patch);
      else if (!k.residual)
        finish<false, false>(m, step, count, at, to, patch);
      else
        finish<false, true>(m, step, count, at, to, patch);
    }
  }

  template <bool kWhole, bool kResidual>
  HWY_INLINE void finish(const float* m, int64_t step, int64_t count, int64_t at, int64_t to,
                         const cpu::Patch& patch) const {
    const TagF d;
    const float low = static_cast<float>(k.a.low), high = static_cast<float>(k.a.high);
    for (int64_t c = 0; c < count; c += kLanes) {
      VecF half[kOut * kIn];
      for (int j = 0; j < kIn; ++j) {
        VecF column[kIn];
        for (int i = 0; i < kIn; ++i) column[i] = hn::LoadU(d, m + (i * kIn + j) * step + c);
        wino::output_line(column, half + j, kIn);
      }
      const VecF shift = k.bias ? hn::LoadU(d, k.bias + at + c) : hn::Zero(d);
      const int height = kWhole ? kOut : patch.y1, width = kWhole ? kOut : patch.x1;
      for (int y = 0; y < height; ++y) {
        VecF line[kOut];
        wino::output_line(half + y * kIn, line, 1);
        for (int x = 0; x < width; ++x) {
          const int64_t pixel = to + (y * k.ow + x) * k.o + c;
          VecF sum = hn::Add(line[x], shift);
          if (kResidual) sum = hn::Add(sum, hn::LoadU(d, k.residual + pixel));
          hn::StoreU(clip(sum, low, high), d, k.y + pixel);
        }
      }
    }
  }
};

template <int P>
void point_products(const Convolution& k, int64_t panel, int64_t tiles, const float* v,
                    int64_t v_step, float* m, int64_t m_step) {
  for (int64_t point = 0; point < wino::kPoints; ++point) {
    const float* const w = k.weights + (point * panels_of(k.o) + panel) * k.c * kPanel;
    const float* const x = v + point * v_step;
    float* const to = m + point * m_step;
    const float* const next = w + panels_of(k.o) * k.c * kPanel;
    int64_t index = 0;
    for_row_tiles(tiles, [&](auto rows, int64_t r) HWY_ATTR {
      Tile<decltype(rows)::value, P> tile;
      tile.load(nullptr, 0);
      tile.add_products(k.c, {x + r * k.c, k.c},
                        fetching<P>({w, k.c * kPanel, nullptr}, next, k.c, index++));
      tile.store(to + r * P * kPanel, P * kPanel);
    });
  }
}

void run_winograd(const Convolution& k, const WinogradPlan& plan, const Threads& threads,
                  float* scratch) {
  const Tiles tiles(k);
  const int64_t panels = panels_of(k.o);
  parallel_parts(threads, plan.blocks, 1, [&](int64_t part, int64_t begin, int64_t end) {
    float *const v = scratch + part * plan.scratch, *const m = v + wino::kPoints * plan.v_step;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * plan.block, last = std::min(first + plan.block, plan.tiles);
      tiles.transform(first, last, v, plan.v_step);
      int64_t q = 0;
      for (; q + kWide <= panels; q += kWide) {
        point_products<kWide>(k, q, last - first, v, plan.v_step, m, plan.m_step);
        tiles.transform_back(first, last, q * kPanel, kWide * kPanel, m, plan.m_step);
      }
      for (; q < panels; ++q) {
        point_products<1>(k, q, last - first, v, plan.v_step, m, plan.m_step);
        tiles.transform_back(first, last, q * kPanel, kPanel, m, plan.m_step);
      }
    }
  });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_winograd);

size_t winograd_scratch(const Convolution& conv, int threads) {
  return static_cast<size_t>(WinogradPlan(conv, threads).scratch * threads) * sizeof(float);
}

void convolve_winograd(Isa isa, const Convolution& conv, const Threads& threads, float* scratch) {
  if (conv.pixels() > 0)
    run_winograd_table.of(isa)(conv, WinogradPlan(conv, threads.count()), threads, scratch);
}

}  // namespace brim::rt
#endif
