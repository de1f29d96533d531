// The passes over elements of batch_norm (channels.cuh). T: the type of activations; P: of
// parameters, T or f32 beside 16-bit activations. Both have one compute type.
#pragma once

#include <cmath>

#include "backend/cuda/channels.cuh"

namespace brim::cuda {

/// y = (x - mean) a + shift
template <class C>
struct Affine {
  C mean, a, shift;
  // One rounding at the end, so that a gradient that works out y again gets the same bits.
  __device__ C operator()(C x) const { return std::fma(x - mean, a, shift); }
};

/// The statistics and parameters of channels.
template <class P>
struct Parameters {
  using C = Compute<P>;
  const P *weight, *bias;
  const C *mean, *scale;

  __device__ Affine<C> affine(int64_t c) const {
    return {mean[c], weight ? scale[c] * widen(weight[c]) : scale[c], bias ? widen(bias[c]) : C(0)};
  }
};

/// What of dy passes the ReLU: all where there is none, what belongs to positive outputs, which are
/// given or worked out again.
template <class T>
struct Masked {
  using C = Compute<T>;
  const T *dy, *x, *y;
  bool relu;

  __device__ C passed(C g, C from, C to, const Affine<C>& f) const {
    if (!relu) return g;
    return (y ? to : f(from)) > C(0) ? g : C(0);
  }
};

/// dx = a g - slope (x - mean) - shift
template <class C>
struct Slope {
  C mean, a, slope, shift;
};

/// y = x normalised, with an addition and a ReLU or without.
template <class T, class P>
struct Normalise {
  using Of = Affine<Compute<T>>;
  Parameters<P> p;
  const T *x, *add;
  bool relu;
  T* y;

  __device__ Of of_channel(int64_t c) const { return p.affine(c); }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using C = Compute<T>;
    using Many = Pack<T, Width>;
    const Many from = reinterpret_cast<const Many*>(x)[i];
    Many other{}, to;
    if (add) other = reinterpret_cast<const Many*>(add)[i];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      C z = of[k * step](widen(from.at[k]));
      if (add) z += widen(other.at[k]);
      if (relu) z = z < C(0) ? C(0) : z;
      to.at[k] = narrow<T>(z);
    }
    reinterpret_cast<Many*>(y)[i] = to;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(x) && aligned<Width>(add) && aligned<Width>(y);
  }
};

/// dx from dy, and what of dy passed the ReLU as the residual's gradient, if that is wanted.
template <class T, class P>
struct BatchGrad {
  using C = Compute<T>;
  struct Of {
    Affine<C> affine;
    Slope<C> slope;
  };
  Masked<T> masked;
  Parameters<P> p;
  const Slope<C>* slopes;
  T *dx, *dresidual;

  __device__ Of of_channel(int64_t c) const { return {p.affine(c), slopes[c]}; }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using Many = Pack<T, Width>;
    const Many up = reinterpret_cast<const Many*>(masked.dy)[i];
    const Many from = reinterpret_cast<const Many*>(masked.x)[i];
    Many out{}, to, kept;
    if (masked.y) out = reinterpret_cast<const Many*>(masked.y)[i];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const Slope<C>& s = of[k * step].slope;
      const C v = widen(from.at[k]);
      const C g = masked.passed(widen(up.at[k]), v, widen(out.at[k]), of[k * step].affine);
      to.at[k] = narrow<T>(s.a * g - s.slope * (v - s.mean) - s.shift);
      kept.at[k] = narrow<T>(g);
    }
    reinterpret_cast<Many*>(dx)[i] = to;
    if (dresidual) reinterpret_cast<Many*>(dresidual)[i] = kept;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(masked.dy) && aligned<Width>(masked.x) && aligned<Width>(masked.y) &&
           aligned<Width>(dx) && aligned<Width>(dresidual);
  }
};

}  // namespace brim::cuda
