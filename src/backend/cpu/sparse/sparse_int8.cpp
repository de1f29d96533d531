// Register tiles: some vectors of positions times some outputs of a group, over its columns.
#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/sparse/sparse_int8.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/int8/int8-inl.h"
#include "backend/cpu/sparse/sparse_int8.h"

#ifndef BRIM_CPU_SPARSE_INT8_CHUNK
#define BRIM_CPU_SPARSE_INT8_CHUNK
namespace brim::cpu {
/// Steps whose interleaved runs and weights stay in the L1 cache.
constexpr int64_t kChunk = 64;
}  // namespace brim::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3
constexpr bool kHasNarrow = true;  // products of bytes, of which two are added in 16 bits
#else
constexpr bool kHasNarrow = false;
#endif
#if HWY_TARGET <= HWY_AVX3
constexpr int kVectors = 4, kOutputsOfOne = 8;
#else
constexpr int kVectors = 2, kOutputsOfOne = 4;
#endif

/// What tiles of a chunk of columns share.
struct Chunk {
  const int32_t* x;  // (steps, kPositions)
  const int32_t* w;  // (steps, vector)
  int64_t steps, vector;
  bool is_first, is_last;
  int32_t* sums;  // (vector, kPositions), from chunk to chunk
  const Int8Finish& finish;
  void* y;
};

/// P vectors of positions from `position` on, Q outputs from `output` on.
template <int P, int Q, bool kNarrow>
HWY_INLINE void tile(const Chunk& c, int64_t position, int64_t output) {
  const Sums di;
  const Numbers d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  const auto at = [&](int p, int q) { return (output + q) * kPositions + position + p * lanes; };
  Sum acc[P][Q];
  for (int q = 0; q < Q; ++q)
    for (int p = 0; p < P; ++p)
      acc[p][q] =
          c.is_first ? hn::Set(di, c.finish.start[output + q]) : hn::LoadU(di, c.sums + at(p, q));
  const int32_t* HWY_RESTRICT x = c.x + position;
  const int32_t* HWY_RESTRICT w = c.w + output;
  for (int64_t j = 0; j < c.steps; ++j, x += kPositions, w += c.vector) {
    Inputs in[P];
    for (int p = 0; p < P; ++p) in[p] = inputs_of(x + p * lanes);
    for (int q = 0; q < Q; ++q) {
      const Weights weight = weight_at(w + q);
      for (int p = 0; p < P; ++p) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3
        if constexpr (kNarrow) {
          acc[p][q] = plus_narrow_products(acc[p][q], in[p], weight);
          continue;
        }
#endif
        acc[p][q] = plus_products(acc[p][q], in[p], weight);
      }
    }
  }
  if (!c.is_last) {
    for (int q = 0; q < Q; ++q)
      for (int p = 0; p < P; ++p) hn::StoreU(acc[p][q], di, c.sums + at(p, q));
    return;
  }
  const auto min = hn::Set(d, c.finish.min), inverse = hn::Set(d, c.finish.inverse);
  for (int q = 0; q < Q; ++q) {
    const auto scale = hn::Set(d, c.finish.scale[output + q]);
    const auto shift = hn::Set(d, c.finish.shift[output + q]);
    for (int p = 0; p < P; ++p) {
      const auto v = hn::Max(hn::MulAdd(hn::ConvertTo(d, acc[p][q]), scale, shift), min);
      store(v, c.finish, inverse, c.y, at(p, q));
    }
  }
}

/// All outputs, for P vectors of positions.
template <int P, int Q, bool kNarrow>
HWY_INLINE void outputs_of(const Chunk& c, int64_t position) {
  int64_t output = 0;
  for (; output + Q <= c.vector; output += Q) tile<P, Q, kNarrow>(c, position, output);
  if (output < c.vector) tile<P, 4, kNarrow>(c, position, output);
}

/// All of `count` positions.
template <bool kNarrow>
HWY_INLINE void positions_of(const Chunk& c, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Sums()));
  int64_t p = 0;
  for (; p + (kVectors - 1) * lanes < count; p += kVectors * lanes)
    outputs_of<kVectors, 4, kNarrow>(c, p);
  if constexpr (kVectors > 2)
    for (; p + lanes < count; p += 2 * lanes) outputs_of<2, kOutputsOfOne, kNarrow>(c, p);
  for (; p < count; p += lanes) outputs_of<1, kOutputsOfOne, kNarrow>(c, p);
}

/// 16 positions of a step: in each lane of i32 the inputs of one, 4 as they are or 2 of 16 bits.
template <bool kFour>
HWY_INLINE void interleave(const uint8_t* const* runs, int64_t position, int32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t p = 0; p < 16; ++p) {
    const uint16_t low = runs[0][position + p], high = runs[1][position + p];
    to[p] = static_cast<int32_t>(low | static_cast<uint32_t>(high) << 16);
  }
#else
  const hn::CappedTag<uint8_t, 16> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  const auto run = [&](int i) { return hn::LoadU(d8, runs[i] + position); };
  const auto a = run(0), b = run(1);
  const auto low = hn::InterleaveLower(d8, a, b), high = hn::InterleaveUpper(d8, a, b);
  // The other two, or what makes 16 bits of 8.
  decltype(hn::Zero(d8)) others[2];
  if constexpr (kFour) {
    const auto c = run(2), e = run(3);
    others[0] = hn::InterleaveLower(d8, c, e);
    others[1] = hn::InterleaveUpper(d8, c, e);
  }
  const auto put = [&](auto v, int part) { hn::StoreU(hn::BitCast(d32, v), d32, to + 4 * part); };
  if constexpr (kFour) {
    const auto l = hn::BitCast(d16, low), h = hn::BitCast(d16, high);
    const auto l2 = hn::BitCast(d16, others[0]), h2 = hn::BitCast(d16, others[1]);
    put(hn::InterleaveLower(d16, l, l2), 0);
    put(hn::InterleaveUpper(d16, l, l2), 1);
    put(hn::InterleaveLower(d16, h, h2), 2);
    put(hn::InterleaveUpper(d16, h, h2), 3);
  } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    const hn::Rebind<uint16_t, decltype(d8)> wide;
    auto* const words = reinterpret_cast<uint16_t*>(to);
    hn::StoreU(hn::PromoteTo(wide, low), wide, words);
    hn::StoreU(hn::PromoteTo(wide, high), wide, words + 16);
#else
    const auto zero = hn::Zero(d8);
    put(hn::InterleaveLower(d8, low, zero), 0);
    put(hn::InterleaveUpper(d8, low, zero), 1);
    put(hn::InterleaveLower(d8, high, zero), 2);
    put(hn::InterleaveUpper(d8, high, zero), 3);
#endif
  }
#endif
}

/// Pairs of i8 as pairs of i16.
HWY_INLINE void widen(const int8_t* from, int64_t pairs, int32_t* to) {
  auto* const wide = reinterpret_cast<int16_t*>(to);
  const hn::CappedTag<int16_t, 16> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d16));  // divide 2 x 4
  for (int64_t i = 0; i < 2 * pairs; i += lanes)
    hn::StoreU(hn::PromoteTo(d16, hn::LoadU(d8, from + i)), d16, wide + i);
}

/// Columns first .. first + count of the group, whose weights follow each other in `weights`,
/// `kStep` of them in a step.
template <int64_t kStep, bool kNarrow>
HWY_INLINE void columns_of(const uint8_t* x, int64_t positions, const SparseInt8Group& g,
                           int64_t first, int64_t count, const int8_t* weights, Chunk c,
                           int32_t* inputs, int32_t* wide) {
  const int64_t steps = (count + kStep - 1) / kStep, end = first + count;
  const bool begins = first == 0, ends = end == g.kept;
  int64_t step = 0;
  do {
    c.steps = std::min(kChunk, steps - step);
    c.is_first = begins && step == 0;
    c.is_last = ends && step + c.steps == steps;
    for (int64_t j = 0; j < c.steps; ++j) {
      const uint8_t* runs[kStep];
      for (int64_t i = 0; i < kStep; ++i)  // the last one again, times zeros
        runs[i] = x + g.runs[g.columns[std::min(first + (step + j) * kStep + i, end - 1)]];
      for (int64_t p = 0; p < positions; p += kPositionStep)
        interleave<kStep == 4>(runs, p, inputs + j * kPositions + p);
    }
    const int8_t* const of_step = weights + step * g.vector * kStep;
    if constexpr (kStep == 4) {
      c.w = reinterpret_cast<const int32_t*>(of_step);
    } else {
      widen(of_step, c.steps * g.vector, wide);
      c.w = wide;
    }
    positions_of<kNarrow>(c, positions);
    step += c.steps;
  } while (step < steps);
}

void block(const uint8_t* x, int64_t count, const SparseInt8Group& g, const Int8Finish& finish,
           void* y, char* scratch) {
  auto* const inputs = reinterpret_cast<int32_t*>(scratch);
  int32_t* const sums = inputs + kChunk * kPositions;
  int32_t* const wide = sums + g.vector * kPositions;
  const Chunk c{.x = inputs,
                .w = wide,
                .steps = 0,
                .vector = g.vector,
                .is_first = true,
                .is_last = false,
                .sums = sums,
                .finish = finish,
                .y = y};
  int64_t narrow = 0;
  if constexpr (kHasNarrow) {
    narrow = g.narrow;
    if (narrow > 0) columns_of<4, true>(x, count, g, 0, narrow, g.narrow_weights, c, inputs, wide);
    if (narrow == g.kept && narrow > 0) return;
  }
  columns_of<kGroup, false>(x, count, g, narrow, g.kept - narrow, g.weights + narrow * g.vector, c,
                            inputs, wide);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(block);

size_t sparse_int8_scratch(int64_t vector) {
  constexpr int64_t kVector = 16;  // that may be written beyond the weights
  return static_cast<size_t>(kChunk * kPositions + vector * (kPositions + kChunk) + kVector) *
         sizeof(int32_t);
}

void sparse_int8_block(const uint8_t* x, int64_t count, const SparseInt8Group& group,
                       const Int8Finish& finish, void* y, char* scratch) {
  HWY_DYNAMIC_DISPATCH(block)(x, count, group, finish, y, scratch);
}

}  // namespace brim::cpu
#endif
