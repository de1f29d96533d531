// Sums of exponentials: what softmax, logsumexp and cross-entropy share. Exponents are taken
// relative to the largest element, so nothing overflows. NaN, an infinity and a line of nothing but
// -inf give NaN, as they do where the largest is found first.
#pragma once

#include <cmath>
#include <limits>

#include "backend/cuda/device/number.cuh"

namespace brim::cuda {

/// The largest of some elements, and the sum of exp(x - largest). C: float or double.
template <class C>
struct ExpSum {
  C largest = -std::numeric_limits<C>::infinity();
  C sum = 0;

  __device__ void add(C x) {
    if (x > largest || x != x) {
      sum = sum * std::exp(largest - x) + ((x - x) + C(1));  // NaN for an infinite x
      largest = x;
    } else if (x != -std::numeric_limits<C>::infinity()) {
      sum += std::exp(x - largest);
    }
  }
  __device__ static ExpSum joined(const ExpSum& a, const ExpSum& b) {
    if (b.sum == 0) return a;
    if (a.sum == 0) return b;
    const bool second = b.largest > a.largest || b.largest != b.largest;
    const C m = second ? b.largest : a.largest;
    ExpSum result;
    result.largest = m;
    result.sum = a.sum * std::exp(a.largest - m) + b.sum * std::exp(b.largest - m);
    return result;
  }
};

}  // namespace brim::cuda
