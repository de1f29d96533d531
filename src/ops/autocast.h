// How ops take part in Autocast: where it is on, an op calls itself with its tensors cast and
// autocast off, so what it is made of sees one dtype.
#pragma once

#include <array>
#include <tuple>

#include "autograd/autocast.h"

namespace brim::ops {

using autograd::autocasting;

template <class Op, size_t N>
auto run_cast(const Op& op, const std::array<Tensor, N>& x) {
  const autograd::AutocastPause off;
  return std::apply(op, x);
}

/// For matrix products: in the scope's dtype.
template <class Op, class... T>
auto run_low(const Op& op, const T&... x) {
  return run_cast(op, std::array<Tensor, sizeof...(T)>{autograd::autocast_low(x)...});
}

/// For what is sensitive to rounding or range: in f32.
template <class Op, class... T>
auto run_wide(const Op& op, const T&... x) {
  return run_cast(op, std::array<Tensor, sizeof...(T)>{autograd::autocast_wide(x)...});
}

/// Whether autocast is on and floats of two dtypes meet: then the op runs in f32.
inline bool autocast_mixes(const Tensor& a, const Tensor& b) {
  return autocasting() && a.defined() && b.defined() && a.dtype() != b.dtype() &&
         is_floating(a.dtype()) && is_floating(b.dtype());
}

}  // namespace brim::ops
