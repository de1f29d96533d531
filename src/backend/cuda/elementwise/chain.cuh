// The links of a chain as kernels see them: an argument that they go through, for some neighbouring
// elements at a time. Formulas are found by their number.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/graph/graph_parameter.cuh"
#include "backend/cuda/reduce/row_packs.cuh"
#include "backend/fused/chain.h"
#include "formula/binary.h"
#include "formula/philox.h"
#include "formula/unary.h"

namespace brim::cuda {

using backend::Chain;

template <class... A, class... B>
formula::List<A..., B...> join(formula::List<A...>, formula::List<B...>);

/// What elements of type T have, numbered in this order: functions of one number, then of two.
template <class T>
using OneNumber = std::conditional_t<std::is_integral_v<T>, formula::UnaryIntegerFormulas,
                                     formula::UnaryFormulas>;
template <class T>
using TwoNumbers = std::conditional_t<std::is_integral_v<T>, formula::BinaryIntegerFormulas,
                                      formula::BinaryFormulas>;

/// The memory of a formula, which the host has made.
struct Made {
  alignas(formula::Params) unsigned char bytes[sizeof(formula::Params)];
};

/// Which elements dropout drops, and what it multiplies the others with.
struct Dropping {
  uint32_t limit;  ///< those whose word's upper 24 bits are below
  double scale;
};
static_assert(sizeof(Dropping) <= sizeof(Made));

struct Links {
  static constexpr int kDropout = -1, kRows = -2;  ///< in the place of a formula's number
  struct Link {
    Made made;
    int number;
    int8_t at[backend::ChainLink::kMaxOperands];  ///< registers, in the order of operands
    bool passes;  ///< the next link's first operand is what this one computes
    bool stored;  ///< somebody else reads that, too
  };
  enum Place : uint8_t { kSingle, kWhole, kRepeated, kInside };

  int count = 0;
  int rows = -1;  ///< which link works on rows
  int first_inside = 0;
  bool again = false;   ///< whether links behind that one read what those before it computed inside
  bool aligned = true;  ///< whether whole tensors are read and written a pack at a time
  Link link[Chain::kMaxLinks];
  void* base[Chain::kMaxRegisters];
  Place place[Chain::kMaxRegisters];
  backend::ChainIndex index[Chain::kMaxRegisters];
};

/// The registers of one thread, for pack `i` of the chain, the thread's `own`-th. They are memory
/// of the thread's, so nothing is written there that nobody reads: not zeros at the begin either.
template <class T, int Width, int Packs = 1>
struct Registers {
  using Packed = Pack<T, Width>;
  Packed inside[Chain::kMaxInner][Packs];

  __device__ Packed load(const Links& links, int r, int64_t i, int own = 0) const {
    const T* const base = static_cast<const T*>(links.base[r]);
    switch (links.place[r]) {
      case Links::kInside:
        return inside[r - links.first_inside][own];
      case Links::kWhole:
        return read_pack<Width>(base + i * Width, links.aligned);
      case Links::kSingle: {
        Packed same;
        for (int k = 0; k < Width; ++k) same.at[k] = *base;
        return same;
      }
      default:
        break;
    }
    const backend::ChainIndex index = links.index[r];
    int64_t at = i * Width / index.repeat % index.period;
    int64_t step = i * Width % index.repeat;
    Packed pack;
    for (int k = 0; k < Width; ++k) {
      pack.at[k] = base[at];
      if (++step < index.repeat) continue;
      step = 0;
      if (++at == index.period) at = 0;
    }
    return pack;
  }
  __device__ void store(const Links& links, int r, int64_t i, const Packed& y, bool outside,
                        int own = 0) {
    if (links.place[r] == Links::kInside)
      inside[r - links.first_inside][own] = y;
    else if (outside)
      write_pack<Width>(static_cast<T*>(links.base[r]) + i * Width, y, links.aligned);
  }
};

/// y = formula `number` of the list of y, for all elements of some packs.
template <class T, int Width, int Packs, class... F>
__device__ inline void apply_one(formula::List<F...>, int number, const Made& made,
                                 Pack<T, Width> (&y)[Packs]) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int i = 0; i < Width; ++i) y[p].at[i] = apply<T>(f, y[p].at[i]);
    return true;
  };
  (void)((number == k++ && run(*reinterpret_cast<const F*>(made.bytes))) || ...);
}
template <class T, int Width, int Packs, class... F>
__device__ inline void apply_two(formula::List<F...>, int number, const Made& made,
                                 Pack<T, Width> (&y)[Packs], const Pack<T, Width> (&b)[Packs]) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int i = 0; i < Width; ++i) y[p].at[i] = apply<T>(f, y[p].at[i], b[p].at[i]);
    return true;
  };
  (void)((number == k++ && run(*reinterpret_cast<const F*>(made.bytes))) || ...);
}
template <class... F>
constexpr int count_of(formula::List<F...>) {
  return static_cast<int>(sizeof...(F));
}

/// Dropout of pack `i`: element e is decided by word e % 4 of block e / 4, whatever the dtype.
template <class T, int Width>
__device__ inline void drop(const Made& made, const RandomKey& key, int64_t i, Pack<T, Width>& y) {
  const Dropping& dropping = *reinterpret_cast<const Dropping*>(made.bytes);
  const auto scale = static_cast<Compute<T>>(dropping.scale);
  formula::Words words{};
  for (int k = 0; k < Width; ++k) {
    const int64_t e = i * Width + k;
    if (k == 0 || e % 4 == 0) words = formula::random_block(key, static_cast<uint64_t>(e / 4));
    y.at[k] = (words.w[e % 4] >> 8) < dropping.limit ? T{} : narrow<T>(widen(y.at[k]) * scale);
  }
}

/// Links `first` up to `end` for the packs i, i + step, ... below `packs`. What a link hands to the
/// next alone stays in y. outside: whether they write to memory.
template <class T, int Width, bool kDraws, int Packs>
__device__ inline void run_links(const Links& links, int first, int end, int64_t i, int64_t step,
                                 int64_t packs, bool outside, const RandomKey& key,
                                 Registers<T, Width, Packs>& registers) {
  constexpr int kOne = count_of(OneNumber<T>{});
  Pack<T, Width> y[Packs] = {};
  bool passed = false;
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (i + k * step < packs) f(k, i + k * step);
  };
  for (int l = first; l < end; ++l) {
    const Links::Link& link = links.link[l];
    if (!passed) each([&](int k, int64_t at) { y[k] = registers.load(links, link.at[0], at, k); });
    int to = link.at[1];
    if (kDraws && link.number == Links::kDropout) {
      if constexpr (kDraws) each([&](int k, int64_t at) { drop(link.made, key, at, y[k]); });
    } else if (link.number < kOne) {
      apply_one(OneNumber<T>{}, link.number, link.made, y);
    } else {
      Pack<T, Width> b[Packs] = {};
      each([&](int k, int64_t at) { b[k] = registers.load(links, link.at[1], at, k); });
      apply_two(TwoNumbers<T>{}, link.number - kOne, link.made, y, b);
      to = link.at[2];
    }
    if (link.stored)
      each([&](int k, int64_t at) { registers.store(links, to, at, y[k], outside, k); });
    passed = link.passes;
  }
}

/// The same of one pack as a function that is called, for kernels that do so in many places. Links
/// must be an argument that has an address, __grid_constant__: otherwise each thread has a copy.
template <class T, int Width, bool kDraws>
__device__ __noinline__ void call_links(const Links& links, int first, int end, int64_t i,
                                        bool outside, const RandomKey& key,
                                        Registers<T, Width>& registers) {
  run_links<T, Width, kDraws>(links, first, end, i, 0, i + 1, outside, key, registers);
}

/// Queues a chain whose link `rows` works on rows.
template <class T>
void queue_row_chain(const Context& context, const Links& links, const Chain& chain,
                     const backend::ChainLink& rows, const RandomKey& key);

}  // namespace brim::cuda
