// softmax, log_softmax, their gradients and logsumexp. Tensors are row-major. Along the last axis a
// warp or a block takes a row; along others sums are made by a reduction, then applied.
#include <type_traits>

#include "backend/cuda/reduce/axis.cuh"
#include "backend/cuda/reduce/softmax_lines.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

template <int Width, class Op>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    rows_kernel(Op op, int64_t rows, int64_t n, int threads, bool whole) {
  begin_kernel();
  using Loaded = typename Op::template Loaded<Width>;
  const ThreadGroup group(threads);
  const auto combine = [&](const auto& a, const auto& b) { return op.combine(a, b); };
  for (int64_t row = group.first_row; row < rows; row += group.rows_at_once) {
    const auto load = [&](int64_t i) { return op.template load<Width>(row * n + i, whole); };
    RowShare<Width, Loaded> share(group, n);
    share.read(load);
    typename Op::Lane lane = op.init();
    share.each(load, [&](const Loaded& in, int64_t) { op.template step<Width>(lane, in); });
    const typename Op::Total total = op.prepared(group.combined(op.widen(lane), combine));
    share.each(load, [&](const Loaded& in, int64_t i) {
      op.template write<Width>(row * n + i, in, total, whole);
    });
  }
}

/// Threads next to each other write elements of neighbouring lines.
template <class Op>
__global__ void write_kernel(Op op, AxisView v) {
  begin_kernel();
  for (int64_t line = first_index(); line < v.lines(); line += grid_size()) {
    const int64_t first = v.first(line);
    const typename Op::Total total = op.totals[line];
    for (int64_t i = blockIdx.y; i < v.n; i += gridDim.y) op.write(first + i * v.inner, total);
  }
}

template <class Op>
void along_axis(const Context& context, Op op, const AxisView& v) {
  if (v.lines() * v.n == 0) return;
  if (v.inner == 1) {
    const int threads = threads_per_row(v.n);
    return op.with_packs(v.n, [&]<int Width>(bool whole) {
      launch_blocks(context, &rows_kernel<Width, Op>, row_grid(v.outer, threads), op, v.outer, v.n,
                    threads, whole);
    });
  }
  constexpr int64_t kBlocks = 2048;
  using Total = typename Op::Total;
  const Workspace scratch = context.workspace(static_cast<size_t>(v.lines()) * sizeof(Total));
  op.totals = scratch.as<Total>();
  reduce(context, op, v.reduction());
  Grid grid = grid_for(v.lines());
  grid.blocks.y = static_cast<unsigned>(std::clamp<int64_t>(kBlocks / grid.blocks.x, 1, v.n));
  launch(context, &write_kernel<Op>, grid, op, v);
}

template <class T, bool kLog>
void softmax(const Context& context, const Tensor& x, Tensor& y, int axis) {
  along_axis(context, Softmax<T, kLog>{{data<const T>(x)}, data<T>(y), nullptr}, AxisView(x, axis));
}

template <class T, bool kLog>
void softmax_grad(const Context& context, const Tensor& dy, const Tensor& y, Tensor& dx, int axis) {
  const SoftmaxGrad<T, kLog> op{data<const T>(dy), data<const T>(y), data<T>(dx), nullptr};
  along_axis(context, op, AxisView(y, axis));
}

/// y = log(sum(exp(x))); -inf for a row of -inf and for an empty one.
template <class T>
struct LogSumExp : ExpSums<T> {
  using typename ExpSums<T>::C;
  using typename ExpSums<T>::Total;
  T* y;

  __device__ void finish(int64_t row, const Total& total) const {
    const C m = total.largest;
    // Infinities are their own answer; NaN passes through the sum.
    y[row] = narrow<T>(std::isinf(m) ? m : m + std::log(total.sum));
  }
};

template <class T>
void logsumexp(const Context& context, const Tensor& x, Tensor& y) {
  const int64_t rows = y.numel(), n = x.shape().back();
  reduce(context, LogSumExp<T>{{data<const T>(x)}, data<T>(y)},
         ReduceShape(Shape({rows, n}), Strides({n, 1}), Strides({1, 0})));
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("softmax", cuda, dtype_of<T>, &softmax<T, false>);
      backend::register_kernel("log_softmax", cuda, dtype_of<T>, &softmax<T, true>);
      backend::register_kernel("softmax_grad", cuda, dtype_of<T>, &softmax_grad<T, false>);
      backend::register_kernel("log_softmax_grad", cuda, dtype_of<T>, &softmax_grad<T, true>);
      backend::register_kernel("logsumexp", cuda, dtype_of<T>, &logsumexp<T>);
    });

}  // namespace
}  // namespace brim::cuda
