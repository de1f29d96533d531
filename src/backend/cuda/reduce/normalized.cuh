// What layer_norm writes of a pack of its row: its own kernel's, and chains'.
#pragma once

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/row_packs.cuh"

namespace brim::cuda {

/// (in - mean) scale weight + bias for the pack from element i of the row on. weight and bias may
/// be null; `whole`: they are read by one access.
template <int Width, class T>
__device__ inline Pack<T, Width> normalized(const Pack<T, Width>& in, Compute<T> mean,
                                            Compute<T> scale, const T* weight, const T* bias,
                                            int64_t i, bool whole) {
  using Packed = Pack<T, Width>;
  const Packed w = weight ? read_pack<Width>(weight + i, whole) : Packed{};
  const Packed b = bias ? read_pack<Width>(bias + i, whole) : Packed{};
  Packed out;
#pragma unroll
  for (int k = 0; k < Width; ++k) {
    Compute<T> unit = (widen(in.at[k]) - mean) * scale;
    if (weight) unit *= widen(w.at[k]);
    if (bias) unit += widen(b.at[k]);
    out.at[k] = narrow<T>(unit);
  }
  return out;
}

}  // namespace brim::cuda
