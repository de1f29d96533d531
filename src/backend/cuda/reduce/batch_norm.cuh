// The passes over elements of batch_norm (channels.cuh). T: the type of activations; P: of
// parameters, T or f32 beside 16-bit activations. Both have one compute type.
#pragma once

#include <cmath>

#include "backend/cuda/elementwise/channels.cuh"

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
    Affine<C> f;
    affines<1>(c, &f);
    return f;
  }
  /// Of N channels from c on.
  template <int N>
  __device__ void affines(int64_t c, Affine<C>* f) const {
    C m[N], a[N];
    P w[N] = {}, b[N] = {};
    load(mean + c, m);
    load(scale + c, a);
    if (weight) load(weight + c, w);
    if (bias) load(bias + c, b);
#pragma unroll
    for (int k = 0; k < N; ++k)
      f[k] = {m[k], weight ? a[k] * widen(w[k]) : a[k], bias ? widen(b[k]) : C(0)};
  }
  template <int N>
  bool loadable() const {
    return cuda::loadable<N>(weight) && cuda::loadable<N>(bias) && cuda::loadable<N>(mean) &&
           cuda::loadable<N>(scale);
  }
};

/// What all kernels of gradients read of `Width` neighbours.
template <class T, int Width>
struct MaskedPacks {
  Pack<T, Width> dy, x, y;
};

/// What of dy passes the ReLU: all where there is none, what belongs to positive outputs, which are
/// given or worked out again.
template <class T>
struct Masked {
  using C = Compute<T>;
  const T *dy, *x, *y;
  bool relu;

  template <int Width>
  __device__ MaskedPacks<T, Width> read(int64_t i) const {
    using Many = Pack<T, Width>;
    MaskedPacks<T, Width> packs{reinterpret_cast<const Many*>(dy)[i],
                                reinterpret_cast<const Many*>(x)[i]};
    if (y) packs.y = reinterpret_cast<const Many*>(y)[i];
    return packs;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(dy) && aligned<Width>(x) && aligned<Width>(y);
  }
  __device__ C passed(C g, C from, C to, const Affine<C>& f) const {
    if (!relu) return g;
    return (y ? to : f(from)) <= C(0) ? C(0) : g;
  }
};

/// dx = a g - slope (x - mean) - shift, mean and a as they are in y's map
template <class C>
struct Slope {
  C slope, shift;
};

/// y = x normalised, with an addition and a ReLU or without.
template <class T, class P>
struct Normalise {
  using Of = Affine<Compute<T>>;
  Parameters<P> p;
  const T *x, *add;
  bool relu;
  T* y;

  template <int N>
  __device__ void of_channels(int64_t c, Of* of) const {
    p.template affines<N>(c, of);
  }
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
  template <int N>
  bool loadable() const {
    return p.template loadable<N>();
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
  const C* slopes;  // of all channels, then their shifts
  int64_t channels;
  T *dx, *dresidual;

  template <int N>
  __device__ void of_channels(int64_t c, Of* of) const {
    Affine<C> f[N];
    C slope[N], shift[N];
    p.template affines<N>(c, f);
    load(slopes + c, slope);
    load(slopes + channels + c, shift);
#pragma unroll
    for (int k = 0; k < N; ++k) of[k] = {f[k], {slope[k], shift[k]}};
  }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using Many = Pack<T, Width>;
    const MaskedPacks<T, Width> in = masked.template read<Width>(i);
    Many to, kept;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const Affine<C>& f = of[k * step].affine;
      const Slope<C>& s = of[k * step].slope;
      const C v = widen(in.x.at[k]);
      const C g = masked.passed(widen(in.dy.at[k]), v, widen(in.y.at[k]), f);
      // A slope of 0, as fixed statistics have, gives 0 for an infinite v, too.
      const C sloped = s.slope == C(0) ? C(0) : s.slope * (v - f.mean);
      to.at[k] = narrow<T>(f.a * g - sloped - s.shift);
      kept.at[k] = narrow<T>(g);
    }
    reinterpret_cast<Many*>(dx)[i] = to;
    if (dresidual) reinterpret_cast<Many*>(dresidual)[i] = kept;
  }
  template <int Width>
  bool is_aligned() const {
    return masked.template is_aligned<Width>() && aligned<Width>(dx) && aligned<Width>(dresidual);
  }
  template <int N>
  bool loadable() const {
    return p.template loadable<N>() && cuda::loadable<N>(slopes) &&
           cuda::loadable<N>(slopes + channels);
  }
};

}  // namespace brim::cuda
