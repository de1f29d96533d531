// Mean and variance in one pass: elements are summed a few at a time relative to the first of them,
// and what comes of that is merged in f64.
#pragma once

#include <cuda_runtime.h>

namespace brim::cuda {

/// Count, mean and squared distances to it (Chan, Golub and LeVeque, 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;

  __device__ static Moments merged(const Moments& a, const Moments& b) {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double total = a.count + b.count, step = b.mean - a.mean, share = b.count / total;
    Moments m;
    m.count = total;
    m.mean = a.mean + step * share;
    m.squares = a.squares + b.squares + step * step * a.count * share;
    return m;
  }
  /// 0 of nothing, so that 1 / sqrt(var + eps) of an empty batch is a number.
  __device__ double var() const { return count > 0 ? squares / count : 0; }
};

/// Up to some dozens of elements. The origin is one of them, so that little is lost when their mean
/// is taken off the squares.
template <class C>
struct FewMoments {
  int count = 0;
  C origin = 0, sum = 0, squares = 0;

  __device__ void add(C x) {
    if (count == 0) origin = x;
    const C d = x - origin;
    sum += d;
    squares += d * d;
    ++count;
  }
  __device__ Moments moments() const {
    if (count == 0) return {};
    const double n = count, s = static_cast<double>(sum);
    Moments m;
    m.count = n;
    m.mean = static_cast<double>(origin) + s / n;
    const double q = static_cast<double>(squares) - s * s / n;
    m.squares = q < 0 ? 0 : q;  // NaN stays
    return m;
  }
};

}  // namespace brim::cuda
