// The passes over elements of batch_norm: what is done to each is given by its channel. Activations
// are row-major, or all are nhwc.
#pragma once

#include <cmath>

#include "backend/cuda/elementwise.cuh"
#include "backend/cuda/reduce.cuh"

namespace brim::cuda {

template <class T>
T* optional(const Tensor& t) {
  return t.defined() ? data<T>(t) : nullptr;
}

/// Which channel an element belongs to: they come in runs of `run`, channel after channel.
struct Channels {
  int64_t count, run = 1, numel;
  bool small;
  Divisor by_count, by_run;

  explicit Channels(const Tensor& x)
      : count(x.shape()[1]),
        numel(x.numel()),
        small(numel > 0 && numel <= std::numeric_limits<int32_t>::max()) {
    for (int i = 2; i < x.rank() && x.is_contiguous(); ++i) run *= x.shape()[i];
    if (!small) return;
    by_count = Divisor(static_cast<uint32_t>(count));
    by_run = Divisor(static_cast<uint32_t>(run));
  }
  __device__ int64_t of(int64_t index) const {
    if (!small) return index / run % count;
    const uint32_t n = by_run.quotient(static_cast<uint32_t>(index));
    return n - by_count.quotient(n) * static_cast<uint32_t>(count);
  }
  /// Whether `width` neighbours are of one channel, or of as many channels in a row.
  bool fits(int width) const { return (run == 1 ? count : run) % width == 0; }

  static ReduceShape reduction(const Tensor& x) {
    Strides to = Shape::filled(x.rank(), 0);
    to[1] = 1;
    return {x.shape(), x.strides(), to};
  }
};

/// y = (x - mean) a + shift
template <class C>
struct Affine {
  C mean, a, shift;
  // One rounding at the end, so that a gradient that works out y again gets the same bits.
  __device__ C operator()(C x) const { return std::fma(x - mean, a, shift); }
};

/// The statistics and parameters of channels.
template <class T>
struct Parameters {
  using C = Compute<T>;
  const T *weight, *bias;
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

/// Whether packs of `Width` may be read there; also true of what is left out.
template <int Width, class T>
bool aligned(const T* t) {
  return is_aligned(t, Width * sizeof(T));
}

/// y = x normalised, with an addition and a ReLU or without.
template <class T>
struct Normalise {
  using Of = Affine<Compute<T>>;
  Parameters<T> p;
  const T *x, *add;
  bool relu;
  T* y;

  __device__ Of of_channel(int64_t c) const { return p.affine(c); }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using C = Compute<T>;
    using P = Pack<T, Width>;
    const P from = reinterpret_cast<const P*>(x)[i];
    P other{}, to;
    if (add) other = reinterpret_cast<const P*>(add)[i];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      C z = of[k * step](widen(from.at[k]));
      if (add) z += widen(other.at[k]);
      if (relu) z = z < C(0) ? C(0) : z;
      to.at[k] = narrow<T>(z);
    }
    reinterpret_cast<P*>(y)[i] = to;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(x) && aligned<Width>(add) && aligned<Width>(y);
  }
};

/// dx from dy, and what of dy passed the ReLU as the residual's gradient, if that is wanted.
template <class T>
struct BatchGrad {
  using C = Compute<T>;
  struct Of {
    Affine<C> affine;
    Slope<C> slope;
  };
  Masked<T> masked;
  Parameters<T> p;
  const Slope<C>* slopes;
  T *dx, *dresidual;

  __device__ Of of_channel(int64_t c) const { return {p.affine(c), slopes[c]}; }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using P = Pack<T, Width>;
    const P up = reinterpret_cast<const P*>(masked.dy)[i];
    const P from = reinterpret_cast<const P*>(masked.x)[i];
    P out{}, to, kept;
    if (masked.y) out = reinterpret_cast<const P*>(masked.y)[i];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const Slope<C>& s = of[k * step].slope;
      const C v = widen(from.at[k]);
      const C g = masked.passed(widen(up.at[k]), v, widen(out.at[k]), of[k * step].affine);
      to.at[k] = narrow<T>(s.a * g - s.slope * (v - s.mean) - s.shift);
      kept.at[k] = narrow<T>(g);
    }
    reinterpret_cast<P*>(dx)[i] = to;
    if (dresidual) reinterpret_cast<P*>(dresidual)[i] = kept;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(masked.dy) && aligned<Width>(masked.x) && aligned<Width>(masked.y) &&
           aligned<Width>(dx) && aligned<Width>(dresidual);
  }
};

/// Threads take `Width` neighbours at a time. kByPixels: these are of channels in a row, else of
/// one. What belongs to a channel is only loaded when it changes: by pixels a thread mostly keeps
/// its own.
template <int Width, bool kByPixels, class Pass>
__global__ void pass_kernel(Pass pass, Channels v) {
  typename Pass::Of of[kByPixels ? Width : 1];
  int64_t loaded = -1;
  for (int64_t i = first_index(); i < v.numel / Width; i += grid_size()) {
    const int64_t c = v.of(i * Width);
    if (c != loaded) {
#pragma unroll
      for (int k = 0; k < (kByPixels ? Width : 1); ++k) of[k] = pass.of_channel(c + k);
      loaded = c;
    }
    pass.template apply<Width>(i, of, kByPixels ? 1 : 0);
  }
}

/// Queues the pass over all elements, in accesses of 16 bytes where channels and addresses allow.
template <class T, class Pass>
void run_pass(const Context& context, const Pass& pass, const Channels& v) {
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  constexpr int64_t kMostThreads = int64_t{2048} * kThreads;
  if (v.numel == 0) return;
  const auto grid = [&](int width) { return grid_for(std::min(v.numel / width, kMostThreads)); };
  if (!v.fits(kWidth) || !pass.template is_aligned<kWidth>())
    launch(context, &pass_kernel<1, false, Pass>, grid(1), pass, v);
  else if (v.run == 1)
    launch(context, &pass_kernel<kWidth, true, Pass>, grid(kWidth), pass, v);
  else
    launch(context, &pass_kernel<kWidth, false, Pass>, grid(kWidth), pass, v);
}

}  // namespace brim::cuda
