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

/// The registers of one thread, for pack `i` of the chain.
template <class T, int Width>
struct Registers {
  using Packed = Pack<T, Width>;
  Packed inside[Chain::kMaxInner];

  __device__ Packed load(const Links& links, int r, int64_t i) const {
    const T* const base = static_cast<const T*>(links.base[r]);
    switch (links.place[r]) {
      case Links::kInside:
        return inside[r - links.first_inside];
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
  __device__ void store(const Links& links, int r, int64_t i, const Packed& y, bool outside) {
    if (links.place[r] == Links::kInside)
      inside[r - links.first_inside] = y;
    else if (outside)
      write_pack<Width>(static_cast<T*>(links.base[r]) + i * Width, y, links.aligned);
  }
};

/// y = formula `number` of the list, for all elements.
template <class T, int Width, class... F>
__device__ inline void apply_one(formula::List<F...>, int number, const Made& made,
                                 const Pack<T, Width>& a, Pack<T, Width>& y) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < Width; ++i) y.at[i] = apply<T>(f, a.at[i]);
    return true;
  };
  (void)((number == k++ && run(*reinterpret_cast<const F*>(made.bytes))) || ...);
}
template <class T, int Width, class... F>
__device__ inline void apply_two(formula::List<F...>, int number, const Made& made,
                                 const Pack<T, Width>& a, const Pack<T, Width>& b,
                                 Pack<T, Width>& y) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < Width; ++i) y.at[i] = apply<T>(f, a.at[i], b.at[i]);
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
__device__ inline void drop(const Made& made, const RandomKey& key, int64_t i,
                            const Pack<T, Width>& a, Pack<T, Width>& y) {
  const Dropping& dropping = *reinterpret_cast<const Dropping*>(made.bytes);
  const auto scale = static_cast<Compute<T>>(dropping.scale);
  formula::Words words{};
  for (int k = 0; k < Width; ++k) {
    const int64_t e = i * Width + k;
    if (k == 0 || e % 4 == 0) words = formula::random_block(key, static_cast<uint64_t>(e / 4));
    y.at[k] = (words.w[e % 4] >> 8) < dropping.limit ? T{} : narrow<T>(widen(a.at[k]) * scale);
  }
}

/// Links `first` up to `end` for pack `i`. outside: whether they write to memory.
template <class T, int Width, bool kDraws>
__device__ inline void run_links(const Links& links, int first, int end, int64_t i, bool outside,
                                 const RandomKey& key, Registers<T, Width>& registers) {
  constexpr int kOne = count_of(OneNumber<T>{});
  for (int l = first; l < end; ++l) {
    const Links::Link& link = links.link[l];
    const Pack<T, Width> a = registers.load(links, link.at[0], i);
    Pack<T, Width> y = a;
    int to = link.at[1];
    if (kDraws && link.number == Links::kDropout) {
      if constexpr (kDraws) drop(link.made, key, i, a, y);
    } else if (link.number < kOne) {
      apply_one<T, Width>(OneNumber<T>{}, link.number, link.made, a, y);
    } else {
      const Pack<T, Width> b = registers.load(links, link.at[1], i);
      apply_two<T, Width>(TwoNumbers<T>{}, link.number - kOne, link.made, a, b, y);
      to = link.at[2];
    }
    registers.store(links, to, i, y, outside);
  }
}

/// The same as a function that is called, for kernels that do so in many places. Links must be an
/// argument that has an address, __grid_constant__: otherwise each thread has a copy.
template <class T, int Width, bool kDraws>
__device__ __noinline__ void call_links(const Links& links, int first, int end, int64_t i,
                                        bool outside, const RandomKey& key,
                                        Registers<T, Width>& registers) {
  run_links<T, Width, kDraws>(links, first, end, i, outside, key, registers);
}

/// Queues a chain whose link `rows` works on rows.
template <class T>
void queue_row_chain(const Context& context, const Links& links, const Chain& chain,
                     const backend::ChainLink& rows, const RandomKey& key);

}  // namespace brim::cuda
