// Convolutions in 8-bit integers with 3 x 3 kernels and stride 1 by Winograd's F(4 x 4, 3 x 3),
// exactly (backend/cpu/int8/int8_winograd.h). Weights are transformed in every run: read as the
// bytes that they are in the file, they come faster from memory than 18 times as many would.
#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#include "rt/kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/int8_winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/int8/int8_winograd_problem-inl.h"
#include "rt/kernels/int8_results-inl.h"

#ifndef BRIM_RT_INT8_WINOGRAD_PLAN_
#define BRIM_RT_INT8_WINOGRAD_PLAN_
namespace brim::rt {
namespace {

int64_t winograd_grain(int64_t work) {
  constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds that are worth a thread
  return work > 0 ? (kWork + work - 1) / work : kWork;
}

/// Threads take tiles through all steps, each with weights that it has transformed itself, unless
/// that would be more work than the tiles: where there are many threads they share the transformed
/// weights, or, of fewer tiles than channels, the tiles. What a thread has made lies in its caches,
/// and another waits for it. Sizes in bytes, for vectors of so many outputs.
struct Int8WinogradPlan {
  static constexpr int64_t kBlock = 32, kOutputs = 64, kPad = 32;  // as the kernels have them
  bool by_tiles;
  bool is_shared;
  int64_t group;   ///< strips that pass tiles together
  int64_t v_step;  ///< of transformed tiles, from point to point, in words
  int64_t shared;  ///< transformed weights, or tiles
  int64_t sums;    ///< at the beginning of each thread's own
  int64_t inputs, weights;
  int64_t own;

  HWY_NOINLINE Int8WinogradPlan(const Int8Convolution& k, int64_t lanes, int threads) {
    constexpr int64_t kPoints = cpu::kWinogradPoints;
    // Tiles whose products take several times as long as transforming the weights.
    constexpr int64_t kWeights = 28;
    const int64_t tiles = k.n * ((k.oh + 3) / 4) * ((k.ow + 3) / 4), strips = k.o / lanes;
    const int64_t strip = kPoints * (k.c * lanes + kPad) * int64_t{sizeof(int16_t)};
    by_tiles = tiles > k.c && tiles > k.o;
    is_shared = tiles < kWeights * (threads - 1);
    group = std::min(strips, kOutputs / lanes);
    if (!by_tiles && is_shared) group = std::clamp<int64_t>(strips / threads, 1, group);
    const int64_t parts =
        std::clamp<int64_t>(tiles / winograd_grain(kPoints * k.c * k.o), 1, threads);
    const int64_t all = is_shared ? tiles : (tiles + parts - 1) / parts;
    v_step = (by_tiles ? kBlock : all) * k.c + kPad;
    sums = group * kPoints * (kBlock * lanes + kPad / 2) * int64_t{sizeof(int32_t)};
    inputs = kPoints * v_step * int64_t{sizeof(int16_t)};
    weights = (by_tiles ? strips : group) * strip;
    shared = !is_shared ? 0 : by_tiles ? weights : inputs;
    own = sums + inputs + weights - shared;
  }
  int64_t bytes(int threads) const { return shared + threads * own; }
};

}  // namespace
}  // namespace brim::rt
#endif

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

namespace wino = cpu::HWY_NAMESPACE;
static_assert(Int8WinogradPlan::kBlock == wino::kBlock &&
              Int8WinogradPlan::kOutputs == wino::kOutputs && Int8WinogradPlan::kPad == wino::kPad);

/// The sums of a vector of outputs.
struct Int8StripOutputs {
  Int8Results results;
  VecF scale, shift;
  VecI start;
  HWY_INLINE void store(VecI sum, int64_t at) const {
    results.store(hn::Add(sum, start), scale, shift, at);
  }
};

/// Weights in panels.
struct Int8PanelLayer {
  const Int8Convolution& k;

  const uint8_t* panel(int64_t output) const {
    return k.weights + output / kPanel * k.panel_bytes();
  }
  HWY_INLINE wino::Word pairs_of(int64_t strip, int tap, int64_t c, int64_t lane) const {
    const int64_t output = strip * kLanes + lane;
    const int64_t at = kPanel * 4 + ((tap * k.c + c) / 4 * kPanel + output % kPanel) * 4;
    return wino::pairs_of_quads(reinterpret_cast<const int8_t*>(panel(output) + at), c % 4 != 0);
  }
  HWY_INLINE Int8StripOutputs outputs_of(int64_t output) const {
    const auto* const weights = reinterpret_cast<const int32_t*>(panel(output)) + output % kPanel;
    const VecI factor = hn::Set(TagI(), cpu::kWinogradShift - k.zero_point);
    return {Int8Results(k), hn::LoadU(TagF(), k.scale + output),
            hn::LoadU(TagF(), k.shift + output), hn::Mul(hn::LoadU(TagI(), weights), factor)};
  }
};

using Int8Problem = wino::WinogradProblem<Int8PanelLayer>;

/// Tiles [begin, end) block by block, whose weights are u.
void winograd_blocks(const Int8Problem& p, const Int8WinogradPlan& plan, int64_t begin, int64_t end,
                     const int16_t* u, int16_t* v, int32_t* m) {
  for (int64_t first = begin; first < end; first += wino::kBlock) {
    const int64_t last = std::min(end, first + wino::kBlock);
    p.transform_x(first, last, v, plan.v_step);
    for (int64_t s = 0; s < p.strips(); s += plan.group)
      p.outputs_of(v, plan.v_step, u + s * p.strip_words(), s, std::min(p.strips(), s + plan.group),
                   first, last, m);
  }
}

/// Strips [first, last) of tiles [begin, end), which are v.
void winograd_strips(const Int8Problem& p, const Int8WinogradPlan& plan, int64_t first,
                     int64_t last, int64_t begin, int64_t end, int16_t* u, const int16_t* v,
                     int32_t* m) {
  for (int64_t i = first; i < last; ++i)
    p.transform_weights(i, 0, p.in, u + (i - first) * p.strip_words());
  for (int64_t t = begin; t < end; t += wino::kBlock)
    p.outputs_of(v + (t - begin) * p.in, plan.v_step, u, first, last, t,
                 std::min(end, t + wino::kBlock), m);
}

void winograd_apart(const Int8Problem& p, const Int8WinogradPlan& plan, const Threads& threads,
                    uint8_t* scratch) {
  parallel_parts(threads, p.count(), winograd_grain(wino::kPoints * p.in * p.out),
                 [&](int64_t part, int64_t begin, int64_t end) {
                   uint8_t* const own = scratch + part * plan.own;
                   auto* const m = reinterpret_cast<int32_t*>(own);
                   auto* const v = reinterpret_cast<int16_t*>(own + plan.sums);
                   auto* const u = reinterpret_cast<int16_t*>(own + plan.sums + plan.inputs);
                   if (plan.by_tiles) {
                     for (int64_t i = 0; i < p.strips(); ++i)
                       p.transform_weights(i, 0, p.in, u + i * p.strip_words());
                     return winograd_blocks(p, plan, begin, end, u, v, m);
                   }
                   p.transform_x(begin, end, v, plan.v_step);
                   for (int64_t s = 0; s < p.strips(); s += plan.group)
                     winograd_strips(p, plan, s, std::min(p.strips(), s + plan.group), begin, end,
                                     u, v, m);
                 });
}

void winograd_by_tiles(const Int8Problem& p, const Int8WinogradPlan& plan, const Threads& threads,
                       uint8_t* scratch) {
  auto* const u = reinterpret_cast<int16_t*>(scratch);
  const int64_t parts = p.in / wino::kWidth;
  parallel_parts(threads, p.strips() * parts, winograd_grain(wino::kPoints * wino::kWidth * kLanes),
                 [&](int64_t, int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t strip = i / parts, c = i % parts * wino::kWidth;
                     p.transform_weights(strip, c, c + wino::kWidth, u + strip * p.strip_words());
                   }
                 });
  const int64_t blocks = (p.count() + wino::kBlock - 1) / wino::kBlock;
  parallel_parts(threads, blocks, winograd_grain(wino::kPoints * wino::kBlock * p.in * p.out),
                 [&](int64_t part, int64_t begin, int64_t end) {
                   uint8_t* const own = scratch + plan.shared + part * plan.own;
                   auto* const m = reinterpret_cast<int32_t*>(own);
                   auto* const v = reinterpret_cast<int16_t*>(own + plan.sums);
                   winograd_blocks(p, plan, begin * wino::kBlock,
                                   std::min(p.count(), end * wino::kBlock), u, v, m);
                 });
}

void winograd_by_outputs(const Int8Problem& p, const Int8WinogradPlan& plan, const Threads& threads,
                         uint8_t* scratch) {
  auto* const v = reinterpret_cast<int16_t*>(scratch);
  parallel_parts(threads, p.count(), winograd_grain(wino::kPoints * p.in),
                 [&](int64_t, int64_t begin, int64_t end) {
                   p.transform_x(begin, end, v + begin * p.in, plan.v_step);
                 });
  const int64_t groups = (p.strips() + plan.group - 1) / plan.group;
  parallel_parts(threads, groups, winograd_grain(plan.group * p.strip_words() * p.count()),
                 [&](int64_t part, int64_t begin, int64_t end) {
                   uint8_t* const own = scratch + plan.shared + part * plan.own;
                   auto* const m = reinterpret_cast<int32_t*>(own);
                   auto* const u = reinterpret_cast<int16_t*>(own + plan.sums);
                   for (int64_t g = begin; g < end; ++g) {
                     const int64_t s = g * plan.group;
                     winograd_strips(p, plan, s, std::min(p.strips(), s + plan.group), 0, p.count(),
                                     u, v, m);
                   }
                 });
}

cpu::WinogradTiles tiles_of(const Int8Convolution& k) {
  return {k.n, k.h, k.w, k.oh, k.ow, k.a.top, k.a.left};
}

/// 0: this is not the faster way.
int64_t bytes_of_winograd(const Int8Convolution& k, int threads) {
  return wino::spares_time(tiles_of(k)) ? Int8WinogradPlan(k, kLanes, threads).bytes(threads) : 0;
}

/// Whether it did.
bool run_int8_winograd(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  const cpu::WinogradTiles tiles = tiles_of(k);
  if (!wino::spares_time(tiles)) return false;
  const auto padding = static_cast<int16_t>(k.zero_point - cpu::kWinogradShift);
  const Int8Problem p{tiles, k.c, k.o, k.x, padding, {k}};
  const Int8WinogradPlan plan(k, kLanes, threads.count());
  if (!plan.is_shared)
    winograd_apart(p, plan, threads, scratch);
  else if (plan.by_tiles)
    winograd_by_tiles(p, plan, threads, scratch);
  else
    winograd_by_outputs(p, plan, threads, scratch);
  return true;
}

#else

int64_t bytes_of_winograd(const Int8Convolution&, int) { return 0; }
bool run_int8_winograd(const Int8Convolution&, const Threads&, uint8_t*) { return false; }

#endif

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(bytes_of_winograd);
BRIM_RT_ISA_TABLE(run_int8_winograd);

size_t int8_winograd_scratch(Isa isa, const Int8Convolution& conv, int threads) {
  const int64_t bytes = bytes_of_winograd_table.of(isa)(conv, threads);
  return bytes > 0 ? static_cast<size_t>(bytes) : conv.scratch();
}

void convolve_int8_winograd(Isa isa, const Int8Convolution& conv, const Threads& threads,
                            uint8_t* scratch) {
  if (!run_int8_winograd_table.of(isa)(conv, threads, scratch))
    convolve_int8(isa, conv, threads, scratch);
}

}  // namespace brim::rt
#endif
