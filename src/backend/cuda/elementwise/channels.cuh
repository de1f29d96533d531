// Passes over activations where what is done to an element is given by its channel. Activations are
// row-major, or all are nhwc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/reduce.cuh"

namespace brim::cuda {

/// Which channel an element belongs to: they come in runs of `run`, channel after channel.
struct Channels {
  int64_t count, run = 1, numel;
  bool small;
  Divisor by_count, by_run;

  explicit Channels(const Tensor& x)
      : count(x.shape()[1]), numel(x.numel()), small(numel > 0 && numel <= kMaxIn32Bits) {
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

/// Whether packs of `Width` may be read there; also true of what is left out.
template <int Width, class T>
bool aligned(const T* t) {
  return is_aligned(t, Width * sizeof(T));
}

/// Reads N neighbours, in accesses of 16 bytes.
template <int N, class T>
__device__ void load(const T* from, T (&to)[N]) {
  constexpr int kEach = std::min(N, static_cast<int>(16 / sizeof(T)));
#pragma unroll
  for (int i = 0; i < N; i += kEach) {
    const auto pack = *reinterpret_cast<const Pack<T, kEach>*>(from + i);
#pragma unroll
    for (int k = 0; k < kEach; ++k) to[i + k] = pack.at[k];
  }
}
/// Whether N may be read from any multiple of N on; also true of what is left out.
template <int N, class T>
bool loadable(const T* from) {
  return is_aligned(from, std::min<size_t>(N * sizeof(T), 16));
}

/// Threads take `Width` neighbours at a time. kByPixels: these are of channels in a row, else of
/// one. What belongs to channels is only loaded when these change: by pixels a thread mostly keeps
/// its own.
template <int Width, bool kByPixels, class Pass>
__global__ void pass_kernel(Pass pass, Channels v) {
  begin_kernel();
  typename Pass::Of of[kByPixels ? Width : 1];
  int64_t loaded = -1;
  for (int64_t i = first_index(); i < v.numel / Width; i += grid_size()) {
    const int64_t c = v.of(i * Width);
    if (c != loaded) {
      pass.template of_channels<kByPixels ? Width : 1>(c, of);
      loaded = c;
    }
    pass.template apply<Width>(i, of, kByPixels ? 1 : 0);
  }
}

/// Queues the pass over all elements, in accesses of 16 bytes where channels and addresses allow.
template <class T, class Pass>
void run_pass(const Context& context, const Pass& pass, const Channels& v) {
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  if (v.numel == 0) return;
  const bool by_pixels = v.run == 1;
  // By pixels a thread loads much before it begins, so it is to have many.
  const int64_t most =
      by_pixels ? 8 * int64_t{multiprocessors(context.device().index)} : int64_t{2048};
  const auto grid = [&](int width) { return grid_for(std::min(v.numel / width, most * kThreads)); };
  if (!v.fits(kWidth) || !pass.template is_aligned<kWidth>() ||
      (by_pixels && !pass.template loadable<kWidth>()))
    launch(context, &pass_kernel<1, false, Pass>, grid(1), pass, v);
  else if (by_pixels)
    launch(context, &pass_kernel<kWidth, true, Pass>, grid(kWidth), pass, v);
  else
    launch(context, &pass_kernel<kWidth, false, Pass>, grid(kWidth), pass, v);
}

}  // namespace brim::cuda
