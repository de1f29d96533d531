// Reductions over any dimensions of a strided tensor. An operation is a struct of
//
// - Lane, Total: what a thread gathers a few elements in, and what all of them come to;
// - init() -> Lane, start() -> Total: of nothing;
// - step(Lane&, at, i, result): adds element i of the reduced space, which lies at offset `at`;
// - widen(Lane) -> Total;
// - combine(Total, Total) -> Total: associative but for rounding;
// - finish(result, Total): writes result number `result`, in row-major order.
//
// Long rows take a block for each result, short ones a warp or less; where neighbouring results lie
// closer together than a result's elements, neighbouring threads work on neighbouring results. Few
// results of many elements are made in parts by one kernel and put together by a second one. All
// this depends on shapes alone and nothing is atomic, so a result is the same bits each time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "backend/cuda/device/divisor.cuh"
#include "backend/cuda/device/thread_group.cuh"
#include "backend/kernel.h"
#include "backend/loop.h"

namespace brim::cuda {

/// What operations have that add up f64.
struct DoubleSum {
  using Lane = double;
  using Total = double;
  __device__ Lane init() const { return 0; }
  __device__ Total start() const { return 0; }
  __device__ Total widen(const Lane& a) const { return a; }
};

/// Some dimensions of a tensor; [0] is the innermost.
struct DeviceDims {
  int rank = 0;
  bool small = true;  // numel fits Divisor
  int64_t numel = 1;
  int64_t size[kMaxRank] = {}, stride[kMaxRank] = {};
  Divisor by[kMaxRank];

  void push(int64_t n, int64_t step) {
    size[rank] = n;
    stride[rank] = step;
    numel *= n;
    small = numel <= kMaxIn32Bits;
    if (small && n > 0) by[rank] = Divisor(static_cast<uint32_t>(n));
    ++rank;
  }

  /// Offset in elements of position `index`.
  __device__ int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int d = 0; d + 1 < rank; ++d) {
      const int64_t rest = small ? by[d].quotient(static_cast<uint32_t>(index)) : index / size[d];
      at += (index - rest * size[d]) * stride[d];
      index = rest;
    }
    return rank > 0 ? at + index * stride[rank - 1] : 0;
  }
};

/// What is reduced, and how threads share it.
struct ReduceShape {
  DeviceDims reduced, kept;  ///< kept in the results' row-major order
  bool by_columns = false;   ///< threads next to each other work on results next to each other
  int height = 1;            ///< threads that share a result, a power of two
  int width = 1;             ///< results of a block
  int64_t parts = 1;         ///< pieces of the reduced space

  /// x with `strides` reduced to results: `to` holds the results' row-major strides along x's axes,
  /// 0 along reduced ones.
  ReduceShape(const Shape& x, const Strides& strides, const Strides& to) {
    int64_t results = 1;
    for (int i = 0; i < x.rank(); ++i)
      if (to[i] != 0 || x[i] == 1) results *= x[i];
    if (x.numel() == 0) {
      kept.push(results, 0);
      reduced.push(0, 0);
    } else {
      const backend::Loop<2> loop = backend::make_loop<2>(x, {to, strides});
      for (int d = 0; d < loop.rank; ++d) {
        const auto k = static_cast<size_t>(d);
        (loop.stride[0][k] == 0 ? reduced : kept).push(loop.size[k], loop.stride[1][k]);
      }
    }
    share();
  }
  /// x reduced to y, which is row-major and has size 1 along reduced axes.
  ReduceShape(const Tensor& x, const Tensor& y)
      : ReduceShape(x.shape(), x.strides(), backend::broadcast_strides(y, x.shape())) {}

  /// `count` rows of `results` columns, row-major, down the columns.
  static ReduceShape columns(int64_t count, int64_t results) {
    return {Shape({count, results}), Strides({results, 1}), Strides({0, 1})};
  }

  /// Gives results more threads, half as many in a block each time: where there is little to do,
  /// and that in f64, what counts is how much of it a thread does in a row.
  void narrow() {
    for (; by_columns && width > 8 && width % 2 == 0 && height * kOfThread < reduced.numel;
         height *= 2)
      width /= 2;
  }

  int threads() const { return (width * height + kWarpThreads - 1) / kWarpThreads * kWarpThreads; }
  int64_t groups() const { return (kept.numel + width - 1) / width; }

 private:
  static constexpr int64_t kOfThread = 4;        // elements a thread takes at least
  static constexpr int64_t kOfPart = 16;         // the same where parts are made
  static constexpr int64_t kEnoughBlocks = 512;  // to fill a GPU

  void share() {
    if (kept.numel == 0) return;
    const int64_t count = reduced.numel;
    const auto power = [](int64_t n, int64_t most) {
      return static_cast<int>(
          std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(n, 1, most))));
    };
    by_columns = kept.rank > 0 && reduced.rank > 0 && kept.size[0] > 1 && kept.stride[0] != 0 &&
                 kept.stride[0] < reduced.stride[0];
    if (by_columns) {
      width = static_cast<int>(std::min<int64_t>(kept.size[0], kWarpThreads));
      height = power(count / kOfThread, std::bit_floor(static_cast<unsigned>(kThreads / width)));
    } else {
      height = power(count / kOfThread, count <= 1024 ? kWarpThreads : kThreads);
      width = static_cast<int>(std::min<int64_t>(kThreads / height, kept.numel));
    }
    if (groups() < kEnoughBlocks)
      parts = std::clamp<int64_t>(count / (height * kOfPart), 1, kEnoughBlocks / groups());
  }
};

/// The total of a thread's share of elements [begin, end).
template <class Op>
__device__ typename Op::Total gather(const Op& op, const ReduceShape& s, int64_t base,
                                     int64_t result, int64_t begin, int64_t end) {
  constexpr int kUnrolled = 4, kRun = 8;  // elements summed in a Lane: their product
  typename Op::Total total = op.start();
  const int64_t step = s.height;
  while (begin < end) {
    typename Op::Lane lane = op.init();
    int run = 0;
    for (; run < kRun && begin + (kUnrolled - 1) * step < end; ++run) {
      int64_t at[kUnrolled];  // all offsets first, so that loads need not wait for each other
#pragma unroll
      for (int k = 0; k < kUnrolled; ++k) at[k] = base + s.reduced.offset(begin + k * step);
#pragma unroll
      for (int k = 0; k < kUnrolled; ++k) op.step(lane, at[k], begin + k * step, result);
      begin += kUnrolled * step;
    }
    if (run < kRun)
      for (; begin < end; begin += step)
        op.step(lane, base + s.reduced.offset(begin), begin, result);
    total = op.combine(total, op.widen(lane));
  }
  return total;
}

/// Block (g, p): group g of results, part p of the reduced space. Where there is one part the
/// results are finished, else totals go to partial[part][result].
template <class Op>
__global__ void __launch_bounds__(kThreads, sizeof(typename Op::Total) < 16 ? 4 : 2)
    reduce_kernel(Op op, ReduceShape s, typename Op::Total* partial) {
  begin_kernel();
  using Total = typename Op::Total;
  const int t = static_cast<int>(threadIdx.x);
  const int column = s.by_columns ? t % s.width : t / s.height;
  const int row = s.by_columns ? t / s.width : t % s.height;
  const int64_t part = blockIdx.y, count = s.reduced.numel;
  const int64_t first = count * part / s.parts, end = count * (part + 1) / s.parts;
  const auto combine = [&](const Total& a, const Total& b) { return op.combine(a, b); };
  const int64_t groups = (s.kept.numel + s.width - 1) / s.width;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int64_t result = group * s.width + column;
    const bool works = result < s.kept.numel && column < s.width && row < s.height;
    Total total = op.start();
    if (works) total = gather(op, s, s.kept.offset(result), result, first + row, end);
    if (s.by_columns) {
      Total* const shared = shared_memory<Total>();
      for (int half = s.height / 2; half > 0; half /= 2) {
        if (row >= half && row < 2 * half) shared[(row - half) * s.width + column] = total;
        __syncthreads();
        if (row < half) total = op.combine(total, shared[row * s.width + column]);
        __syncthreads();
      }
    } else {
      total = s.height <= kWarpThreads ? combine_lanes(total, s.height, combine)
                                       : combine_block(total, shared_memory<Total>(), combine);
    }
    if (!works || row != 0) continue;
    if (s.parts == 1)
      op.finish(result, total);
    else
      partial[part * s.kept.numel + result] = total;
  }
}

/// Puts the totals of parts together.
template <class Op>
struct Together {
  using Lane = typename Op::Total;
  using Total = typename Op::Total;
  Op op;
  const Total* partial;

  __device__ Lane init() const { return op.start(); }
  __device__ Total start() const { return op.start(); }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane = op.combine(lane, partial[at]);
  }
  __device__ Total widen(const Lane& lane) const { return lane; }
  __device__ Total combine(const Total& a, const Total& b) const { return op.combine(a, b); }
  __device__ void finish(int64_t result, const Total& total) const { op.finish(result, total); }
};

template <class Op>
void launch_reduction(const Context& context, const Op& op, const ReduceShape& s,
                      typename Op::Total* partial) {
  const int64_t blocks = std::min<int64_t>(s.groups(), std::numeric_limits<int32_t>::max());
  launch_blocks(context, &reduce_kernel<Op>,
                Grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(s.parts)),
                     dim3(static_cast<unsigned>(s.threads())),
                     static_cast<size_t>(s.threads()) * sizeof(typename Op::Total)},
                op, s, partial);
}

/// Queues what makes results of their parts' totals: partial[part][result].
template <class Op>
void put_together(const Context& context, const Op& op, const typename Op::Total* partial,
                  int64_t parts, int64_t results) {
  ReduceShape shape = ReduceShape::columns(parts, results);
  shape.parts = 1;
  shape.narrow();
  launch_reduction(context, Together<Op>{op, partial}, shape,
                   static_cast<typename Op::Total*>(nullptr));
}

/// Queues the reduction. One of nothing finishes start().
template <class Op>
void reduce(const Context& context, const Op& op, const ReduceShape& s) {
  using Total = typename Op::Total;
  if (s.kept.numel == 0) return;
  if (s.parts == 1) return launch_reduction(context, op, s, static_cast<Total*>(nullptr));
  const Workspace scratch =
      context.workspace(static_cast<size_t>(s.parts * s.kept.numel) * sizeof(Total));
  launch_reduction(context, op, s, scratch.as<Total>());
  put_together(context, op, scratch.as<Total>(), s.parts, s.kept.numel);
}

}  // namespace brim::cuda
