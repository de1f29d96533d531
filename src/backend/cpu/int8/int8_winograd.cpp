// Tiles and weights are transformed, multiplied point by point (36 matrix products of i16), and
// transformed back. As f32 does it (conv_winograd.cpp): where there are more tiles than channels,
// each thread takes blocks of tiles through all three steps; otherwise each takes outputs.
#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#include "backend/cpu/int8/int8_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/int8/int8_winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/int8/int8-inl.h"
#include "backend/cpu/int8/int8_winograd_problem-inl.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

using backend::ConvGeometry;

/// The sums of a strip.
struct StripOutputs {
  OutputFinish finish;
  Sum start;
  void* y;
  HWY_INLINE void store(Sum sum, int64_t at) const { finish.store_sum(hn::Add(sum, start), y, at); }
};

/// Of libbrim: weights in strips of kLanes outputs (see int8_rows.h).
struct PackedLayer {
  const int8_t* packed;
  int64_t in;
  const Int8Finish& finish;
  void* y;

  HWY_INLINE Word pairs_of(int64_t strip, int tap, int64_t c, int64_t lane) const {
    const int8_t* const from = packed + (strip * kWinogradTaps + tap) * in * kLanes +
                               c / kGroup * kGroup * kLanes + lane * kGroup;
    if constexpr (kQuads) return pairs_of_quads(from, c % kGroup != 0);
    return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<int8_t, Words>(), from));
  }
  HWY_INLINE StripOutputs outputs_of(int64_t output) const {
    return {OutputFinish(finish, output), hn::LoadU(Sums(), finish.start + output), y};
  }
};
using Problem = WinogradProblem<PackedLayer>;

constexpr int64_t kGrain = int64_t{1} << 18;  // multiply-adds below which a part is not split

WinogradTiles tiles_of(const ConvGeometry& g) {
  return {.n = g.n,
          .h = g.h,
          .w = g.w,
          .oh = g.oh,
          .ow = g.ow,
          .top = g.padding.h,
          .left = g.padding.w};
}

int64_t grain_of(int64_t work) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)); }
size_t bytes_of_words(int64_t count) { return static_cast<size_t>(count) * sizeof(int16_t); }
/// For the sums of so many strips.
size_t bytes_of_sums(int64_t strips) {
  return static_cast<size_t>(strips * kPoints * Problem::sums_step(kBlock)) * sizeof(int32_t);
}

void by_tiles(const Context& context, const Problem& p) {
  const Workspace weights = context.workspace(bytes_of_words(p.strips() * p.strip_words()));
  auto* const u = weights.as<int16_t>();
  const int64_t parts = p.in / kWidth;
  parallel_for(p.strips() * parts, grain_of(kPoints * kWidth * kLanes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t strip = i / parts, c = i % parts * kWidth;
                   p.transform_weights(strip, c, c + kWidth, u + strip * p.strip_words());
                 }
               });
  const int64_t blocks = (p.count() + kBlock - 1) / kBlock, v_step = kBlock * p.in + kPad;
  const int64_t grain = grain_of(kPoints * kBlock * p.in * p.out), group = kOutputs / kLanes;
  const size_t sums = bytes_of_sums(group);
  const PartScratch scratch(context, blocks, grain, sums + bytes_of_words(kPoints * v_step));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    auto* const m = slot.as<int32_t>();
    auto* const v = reinterpret_cast<int16_t*>(slot.as<char>() + sums);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kBlock, last = std::min(p.count(), first + kBlock);
      p.transform_x(first, last, v, v_step);
      for (int64_t s = 0; s < p.strips(); s += group)
        p.outputs_of(v, v_step, u + s * p.strip_words(), s, std::min(p.strips(), s + group), first,
                     last, m);
    }
  });
}

void by_outputs(const Context& context, const Problem& p) {
  const int64_t v_step = p.count() * p.in + kPad;
  const Workspace tiles = context.workspace(bytes_of_words(kPoints * v_step));
  auto* const v = tiles.as<int16_t>();
  parallel_for(p.count(), grain_of(kPoints * p.in), [&](int64_t begin, int64_t end) {
    p.transform_x(begin, end, v + begin * p.in, v_step);
  });
  // Groups of strips, as many as keep all threads busy.
  const int64_t group = std::clamp<int64_t>(p.strips() / (2 * num_threads()), 1, kOutputs / kLanes);
  const int64_t groups = (p.strips() + group - 1) / group;
  const int64_t grain = grain_of(group * p.strip_words() * p.count());
  const size_t sums = bytes_of_sums(group);
  const PartScratch scratch(context, groups, grain, sums + bytes_of_words(group * p.strip_words()));
  parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    auto* const m = slot.as<int32_t>();
    auto* const u = reinterpret_cast<int16_t*>(slot.as<char>() + sums);
    for (int64_t s = begin * group; s < std::min(p.strips(), end * group); s += group) {
      const int64_t last = std::min(p.strips(), s + group);
      for (int64_t i = s; i < last; ++i)
        p.transform_weights(i, 0, p.in, u + (i - s) * p.strip_words());
      for (int64_t first = 0; first < p.count(); first += kBlock)
        p.outputs_of(v + first * p.in, v_step, u, s, last, first,
                     std::min(p.count(), first + kBlock), m);
    }
  });
}

bool winograd_wins(const ConvGeometry& g) { return spares_time(tiles_of(g)); }

void winograd(const Context& context, const uint8_t* x, int32_t zero_point, const int8_t* packed,
              const ConvGeometry& g, const Int8Finish& finish, void* y) {
  const Problem p{tiles_of(g),
                  g.c,
                  g.o,
                  x,
                  static_cast<int16_t>(zero_point - kWinogradShift),
                  {packed, g.c, finish, y}};
  return p.by_tiles() ? by_tiles(context, p) : by_outputs(context, p);
}

#else

bool winograd_wins(const backend::ConvGeometry&) { return false; }
void winograd(const Context&, const uint8_t*, int32_t, const int8_t*, const backend::ConvGeometry&,
              const Int8Finish&, void*) {}

#endif

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(winograd_wins);
HWY_EXPORT(winograd);

bool int8_winograd_wins(const backend::ConvGeometry& g, int64_t largest) {
  constexpr int64_t kWidth = 16;  // channels
  return largest <= kMaxWinogradWeights && g.kh == 3 && g.kw == 3 && g.stride == Pair(1) &&
         g.dilation == Pair(1) && g.groups == 1 && g.c % kWidth == 0 && g.o % kWidth == 0 &&
         g.n > 0 && g.c > 0 && g.o > 0 && HWY_DYNAMIC_DISPATCH(winograd_wins)(g);
}

void int8_winograd(const Context& context, const uint8_t* x, int32_t zero_point,
                   const int8_t* packed, const backend::ConvGeometry& g, const Int8Finish& finish,
                   void* y) {
  HWY_DYNAMIC_DISPATCH(winograd)(context, x, zero_point, packed, g, finish, y);
}

}  // namespace brim::cpu
#endif
