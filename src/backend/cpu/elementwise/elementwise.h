// Runs elementwise kernels. A formula is compiled only into a loop over dense elements; operands
// with other strides are staged through small buffers, so that they are vectorised as well.
#pragma once

#include <array>

#include <brim/formula/formula.h>

#include "backend/cpu/elementwise/loop.h"
#include "backend/fused/chain.h"

namespace brim::cpu {

using backend::DenseLoop;

/// Applies `f` over the whole loop, in parallel where it is large. `base[k]` is the address of
/// operand k's first element, `bytes[k]` the size of its elements.
template <int N>
void run_elementwise(const Loop<N>& loop, const std::array<char*, N>& base,
                     const std::array<int, N>& bytes, DenseLoop f, const formula::Params& params);

/// y = f(in...) with broadcasting.
template <class... In>
void elementwise(DenseLoop f, const formula::Params& params, Tensor& y, const In&... in) {
  constexpr int N = 1 + sizeof...(In);
  const std::array<char*, N> base{static_cast<char*>(y.raw()), static_cast<char*>(in.raw())...};
  const bool dense = y.is_contiguous() && ((in.is_contiguous() && in.shape() == y.shape()) && ...);
  if (const int64_t n = y.numel(); dense && n < 2 * kElementwiseGrain) {
    if (n > 0) f(base.data(), n, params);
    return;
  }
  const std::array<int, N> bytes{static_cast<int>(size_of(y.dtype())),
                                 static_cast<int>(size_of(in.dtype()))...};
  run_elementwise<N>(make_loop(y, in...), base, bytes, f, params);
}

}  // namespace brim::cpu
