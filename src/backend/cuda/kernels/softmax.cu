// softmax, log_softmax, their gradients and logsumexp. Tensors are row-major. Along the last axis a
// warp or a block takes a row; along others sums are made by a reduction, then applied.
#include "backend/cuda/reduce/softmax.cuh"

#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/axis.cuh"
#include "backend/cuda/reduce/row_packs.cuh"

namespace brim::cuda {
namespace {

/// y = exp(x - largest) / sum, or its logarithm.
template <class T, bool kLog>
struct Softmax {
  using C = Compute<T>;
  using Lane = ExpSum<C>;
  using Total = ExpSum<C>;
  const T* x;
  T* y;
  Total* totals;  // of lines, where a reduction makes them

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane.add(brim::cuda::widen(x[at]));
  }
  __device__ Total widen(const Lane& lane) const { return lane; }
  __device__ Total combine(const Total& a, const Total& b) const { return Total::joined(a, b); }
  __device__ void finish(int64_t line, Total total) const { totals[line] = prepared(total); }
  /// A total as `write` takes it: the factor, or what the logarithm takes off, in the place of sum.
  __device__ Total prepared(Total total) const {
    total.sum = kLog ? std::log(total.sum) : 1 / total.sum;
    return total;
  }
  __device__ T result(T v, const Total& total) const {
    const C d = brim::cuda::widen(v) - total.largest;
    return narrow<T>(kLog ? d - total.sum : std::exp(d) * total.sum);
  }
  __device__ void write(int64_t at, const Total& total) const { y[at] = result(x[at], total); }

  template <int Width>
  using Loaded = Pack<T, Width>;
  template <int Width>
  __device__ Loaded<Width> load(int64_t at, bool whole) const {
    return read_pack<Width>(x + at, whole);
  }
  template <int Width>
  __device__ void step(Lane& lane, const Loaded<Width>& in) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) lane.add(brim::cuda::widen(in.at[k]));
  }
  template <int Width>
  __device__ void write(int64_t at, const Loaded<Width>& in, const Total& total, bool whole) const {
    Pack<T, Width> out;
#pragma unroll
    for (int k = 0; k < Width; ++k) out.at[k] = result(in.at[k], total);
    write_pack<Width>(y + at, out, whole);
  }
  template <class Run>
  void with_packs(int64_t n, const Run& run) const {
    with_row_packs<T>(n, {x, y}, run);
  }
};

/// dx = y (dy - sum(dy y)), for log_softmax dx = dy - exp(y) sum(dy).
template <class T, bool kLog>
struct SoftmaxGrad {
  using C = Compute<T>;
  using Lane = C;
  using Total = C;
  const T *dy, *y;
  T* dx;
  Total* totals;

  __device__ Lane init() const { return 0; }
  __device__ Total start() const { return 0; }
  __device__ void add(Lane& sum, T dy_at, T y_at) const {
    const C g = brim::cuda::widen(dy_at);
    sum += kLog ? g : g * brim::cuda::widen(y_at);
  }
  __device__ void step(Lane& sum, int64_t at, int64_t, int64_t) const { add(sum, dy[at], y[at]); }
  __device__ Total widen(const Lane& sum) const { return sum; }
  __device__ Total combine(const Total& a, const Total& b) const { return a + b; }
  __device__ void finish(int64_t line, Total total) const { totals[line] = total; }
  __device__ Total prepared(Total total) const { return total; }
  __device__ T result(T dy_at, T y_at, const Total& total) const {
    const C g = brim::cuda::widen(dy_at), p = brim::cuda::widen(y_at);
    return narrow<T>(kLog ? g - std::exp(p) * total : p * (g - total));
  }
  __device__ void write(int64_t at, const Total& total) const {
    dx[at] = result(dy[at], y[at], total);
  }

  template <int Width>
  struct Loaded {
    Pack<T, Width> dy, y;
  };
  template <int Width>
  __device__ Loaded<Width> load(int64_t at, bool whole) const {
    return {read_pack<Width>(dy + at, whole), read_pack<Width>(y + at, whole)};
  }
  template <int Width>
  __device__ void step(Lane& sum, const Loaded<Width>& in) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) add(sum, in.dy.at[k], in.y.at[k]);
  }
  template <int Width>
  __device__ void write(int64_t at, const Loaded<Width>& in, const Total& total, bool whole) const {
    Pack<T, Width> out;
#pragma unroll
    for (int k = 0; k < Width; ++k) out.at[k] = result(in.dy.at[k], in.y.at[k], total);
    write_pack<Width>(dx + at, out, whole);
  }
  template <class Run>
  void with_packs(int64_t n, const Run& run) const {
    with_row_packs<T>(n, {dy, y, dx}, run);
  }
};

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
  along_axis(context, Softmax<T, kLog>{data<const T>(x), data<T>(y), nullptr}, AxisView(x, axis));
}

template <class T, bool kLog>
void softmax_grad(const Context& context, const Tensor& dy, const Tensor& y, Tensor& dx, int axis) {
  const SoftmaxGrad<T, kLog> op{data<const T>(dy), data<const T>(y), data<T>(dx), nullptr};
  along_axis(context, op, AxisView(y, axis));
}

/// y = log(sum(exp(x))); -inf for a row of -inf and for an empty one.
template <class T>
struct LogSumExp {
  using C = Compute<T>;
  using Lane = ExpSum<C>;
  using Total = ExpSum<C>;
  const T* x;
  T* y;

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane.add(brim::cuda::widen(x[at]));
  }
  __device__ Total widen(const Lane& lane) const { return lane; }
  __device__ Total combine(const Total& a, const Total& b) const { return Total::joined(a, b); }
  __device__ void finish(int64_t row, const Total& total) const {
    const C m = total.largest;
    // Infinities are their own answer; NaN passes through the sum.
    y[row] = narrow<T>(std::isinf(m) ? m : m + std::log(total.sum));
  }
};

template <class T>
void logsumexp(const Context& context, const Tensor& x, Tensor& y) {
  const int64_t rows = y.numel(), n = x.shape().back();
  reduce(context, LogSumExp<T>{data<const T>(x), data<T>(y)},
         ReduceShape(Shape({rows, n}), Strides({n, 1}), Strides({1, 0})));
}

template <class... T>
bool register_all() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  ((backend::register_kernel("softmax", cuda, dtype_of<T>, &softmax<T, false>),
    backend::register_kernel("log_softmax", cuda, dtype_of<T>, &softmax<T, true>),
    backend::register_kernel("softmax_grad", cuda, dtype_of<T>, &softmax_grad<T, false>),
    backend::register_kernel("log_softmax_grad", cuda, dtype_of<T>, &softmax_grad<T, true>),
    backend::register_kernel("logsumexp", cuda, dtype_of<T>, &logsumexp<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
