// Reductions of activations to one result a channel. Where channels lie next to each other threads
// take as many of them as 16 bytes hold, pixel after pixel; elsewhere reduce.cuh does it. Sizes and
// alignment decide, and nothing is atomic, so a result is the same bits each time.
//
// An operation is one of reduce.cuh that also has
//
// - Of, Many<Width>: what belongs to a channel, and all that is read of `Width` neighbours;
// - kUnrolled: how many of the latter a thread reads at once, a divisor of 32;
// - of_channels<N>(c, Of*): reads what belongs to N channels from c on;
// - read<Width>(i) -> Many<Width>: neighbours number i;
// - step<Width>(Lane*, Many<Width>, const Of*): adds them to their lanes;
// - is_aligned<Width>(), loadable<N>(): as passes have them (channels.cuh).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "backend/cuda/elementwise/channels.cuh"
#include "backend/cuda/reduce/reduce.cuh"

namespace brim::cuda {

/// How threads share pixels of `packs` packs of channels each.
struct PixelShape {
  int64_t packs, pixels;
  int columns, rows;  // of a block: packs next to each other, and threads that share one of these
  int64_t parts = 1;  // pieces of the pixels

  PixelShape(int64_t packs, int64_t pixels)
      : packs(packs),
        pixels(pixels),
        columns(static_cast<int>(std::min<int64_t>(packs, kWarpThreads))),
        rows(static_cast<int>(std::bit_floor(static_cast<unsigned>(kThreads / columns)))) {
    parts = std::clamp<int64_t>(pixels / (rows * kOfThread), 1,
                                std::max<int64_t>(1, kEnoughBlocks / groups()));
  }
  int threads() const { return (columns * rows + kWarpThreads - 1) / kWarpThreads * kWarpThreads; }
  int64_t groups() const { return (packs + columns - 1) / columns; }

 private:
  static constexpr int64_t kOfThread = 16;       // pixels a thread takes at least
  static constexpr int64_t kEnoughBlocks = 256;  // to fill a GPU
};

/// Block (g, p): group g of packs, part p of the pixels. Totals go to partial[part][channel].
template <int Width, class Op>
__global__ void __launch_bounds__(kThreads, 2)
    pixel_sums_kernel(Op op, PixelShape s, typename Op::Total* partial) {
  begin_kernel();
  using Total = typename Op::Total;
  constexpr int kUnrolled = Op::kUnrolled, kRun = 32 / kUnrolled;  // summed in a Lane: 32 pixels
  const int t = static_cast<int>(threadIdx.x), column = t % s.columns, row = t / s.columns;
  const int64_t pack = int64_t{blockIdx.x} * s.columns + column, part = blockIdx.y;
  const bool works = pack < s.packs && row < s.rows;
  Total total[Width];
#pragma unroll
  for (int k = 0; k < Width; ++k) total[k] = op.start();
  if (works) {
    typename Op::Of of[Width];
    op.template of_channels<Width>(pack * Width, of);
    const int64_t first = s.pixels * part / s.parts + row, end = s.pixels * (part + 1) / s.parts;
    const int64_t step = s.rows * s.packs;
    int64_t at = first * s.packs + pack;
    // Of this thread: fewer than 2^31 in any memory. One register instead of four.
    int left = first < end ? static_cast<int>((end - first + s.rows - 1) / s.rows) : 0;
    while (left > 0) {
      typename Op::Lane lane[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) lane[k] = op.init();
      int run = 0;
      for (; run < kRun && left >= kUnrolled; ++run) {
        typename Op::template Many<Width> many[kUnrolled];  // all are read first
#pragma unroll
        for (int u = 0; u < kUnrolled; ++u) many[u] = op.template read<Width>(at + u * step);
#pragma unroll
        for (int u = 0; u < kUnrolled; ++u) op.template step<Width>(lane, many[u], of);
        left -= kUnrolled;
        at += kUnrolled * step;
      }
      if (run < kRun)
        for (; left > 0; --left, at += step)
          op.template step<Width>(lane, op.template read<Width>(at), of);
#pragma unroll
      for (int k = 0; k < Width; ++k) total[k] = op.combine(total[k], op.widen(lane[k]));
    }
  }
  Total* const shared = shared_memory<Total>();
  const int apart = s.columns * Width;
  for (int half = s.rows / 2; half > 0; half /= 2) {
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int k = 0; k < Width; ++k)
        shared[(row - half) * apart + k * s.columns + column] = total[k];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int k = 0; k < Width; ++k)
        total[k] = op.combine(total[k], shared[row * apart + k * s.columns + column]);
    __syncthreads();
  }
  if (!works || row != 0) return;
#pragma unroll
  for (int k = 0; k < Width; ++k) partial[(part * s.packs + pack) * Width + k] = total[k];
}

/// Queues the reduction of x, whose elements are T, to results of its channels.
template <class T, class Op>
void reduce_channels(const Context& context, const Op& op, const Tensor& x, const Channels& v) {
  using Total = typename Op::Total;
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  if (v.run != 1 || v.numel == 0 || !v.fits(kWidth) || !op.template is_aligned<kWidth>() ||
      !op.template loadable<kWidth>())
    return reduce(context, op, Channels::reduction(x));
  const PixelShape s(v.count / kWidth, v.numel / v.count);
  const Workspace scratch =
      context.workspace(static_cast<size_t>(s.parts * v.count) * sizeof(Total));
  launch_blocks(context, &pixel_sums_kernel<kWidth, Op>,
                Grid{dim3(static_cast<unsigned>(s.groups()), static_cast<unsigned>(s.parts)),
                     dim3(static_cast<unsigned>(s.threads())),
                     static_cast<size_t>(s.rows / 2 * s.columns * kWidth) * sizeof(Total)},
                op, s, scratch.as<Total>());
  put_together(context, op, scratch.as<Total>(), s.parts, v.count);
}

}  // namespace brim::cuda
