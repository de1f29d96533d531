// Reductions of one axis that need positions or order: max and min with indices, cumsum. Inputs are
// row-major, seen as (outer, n, inner).
#include <limits>
#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/axis.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// The best element and its index; the first of equals. NaN beats everything.
template <class T, bool kLargest>
struct Pick {
  struct Total {
    Compute<T> value;
    int64_t index;  // -1: none yet
  };
  using Lane = Total;
  const T* x;
  T* values;
  int64_t* indices;

  __device__ static bool better(const Total& a, const Total& b) {
    if (a.index < 0 || b.index < 0) return b.index < 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan) return a_nan && (!b_nan || a.index < b.index);
    if (a.value == b.value) return a.index < b.index;
    return kLargest ? a.value > b.value : a.value < b.value;
  }
  __device__ Lane init() const { return {Compute<T>(0), -1}; }
  __device__ Total start() const { return init(); }
  __device__ void step(Lane& best, int64_t at, int64_t i, int64_t) const {
    best = combine(best, {brim::cuda::widen(x[at]), i});
  }
  __device__ Total widen(const Lane& best) const { return best; }
  __device__ Total combine(const Total& a, const Total& b) const { return better(b, a) ? b : a; }
  __device__ void finish(int64_t result, const Total& best) const {
    values[result] = narrow<T>(best.value);
    indices[result] = best.index;
  }
};

template <class T, bool kLargest>
void pick(const Context& context, const Tensor& x, Tensor& values, Tensor& indices, int axis) {
  const Pick<T, kLargest> op{data<const T>(x), data<T>(values), data<int64_t>(indices)};
  reduce(context, op, AxisView(x, axis).reduction());
}

/// y[at] = the running total, rounded; sums of integers wrap around.
template <class T>
struct RunningSum {
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  const T* x;
  Out* y;
  AxisView v;
  bool reverse;

  __device__ int64_t at(int64_t line, int64_t i) const {
    return v.first(line) + (reverse ? v.n - 1 - i : i) * v.inner;
  }
  __device__ Total term(int64_t at) const { return static_cast<Total>(brim::cuda::widen(x[at])); }
  __device__ void write(int64_t at, Total total) const {
    if constexpr (std::is_integral_v<T>)
      y[at] = static_cast<int64_t>(total);
    else
      y[at] = narrow<T>(static_cast<Compute<T>>(total));
  }
};

/// One thread goes along each line.
template <class T>
__global__ void cumsum_many(RunningSum<T> sum) {
  begin_kernel();
  for (int64_t line = first_index(); line < sum.v.lines(); line += grid_size()) {
    typename RunningSum<T>::Total total = 0;
    for (int64_t i = 0; i < sum.v.n; ++i) {
      const int64_t at = sum.at(line, i);
      total += sum.term(at);
      sum.write(at, total);
    }
  }
}

/// A block goes along each line, as many elements at once as it has threads.
template <class T>
__global__ void cumsum_long(RunningSum<T> sum) {
  begin_kernel();
  using Total = typename RunningSum<T>::Total;
  Total* const of_warp = shared_memory<Total>();
  const unsigned lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  for (int64_t line = blockIdx.x; line < sum.v.lines(); line += gridDim.x) {
    Total before = 0;
    for (int64_t first = 0; first < sum.v.n; first += blockDim.x) {
      const int64_t i = first + threadIdx.x;
      const bool works = i < sum.v.n;
      const int64_t at = works ? sum.at(line, i) : 0;
      Total total = works ? sum.term(at) : Total(0);
      for (unsigned step = 1; step < kWarpThreads; step *= 2) {
        const Total other = __shfl_up_sync(kWholeWarp, total, step);
        if (lane >= step) total += other;
      }
      if (lane == kWarpThreads - 1) of_warp[warp] = total;
      __syncthreads();
      Total all = 0, lower = 0;
      for (unsigned w = 0; w < blockDim.x / kWarpThreads; ++w) {
        if (w == warp) lower = all;
        all += of_warp[w];
      }
      if (works) sum.write(at, before + (lower + total));
      before += all;
      __syncthreads();
    }
  }
}

template <class T>
void cumsum(const Context& context, const Tensor& x, Tensor& y, int axis, bool reverse) {
  constexpr int64_t kManyLines = 4096, kLong = 128;
  if (x.numel() == 0) return;
  const RunningSum<T> sum{data<const T>(x), data<typename RunningSum<T>::Out>(y), AxisView(x, axis),
                          reverse};
  const int64_t lines = sum.v.lines();
  if (lines >= kManyLines || sum.v.n < kLong) {
    launch(context, &cumsum_many<T>, grid_for(lines), sum);
  } else {
    launch_blocks(context, &cumsum_long<T>,
                  Grid{dim3(static_cast<unsigned>(lines)), dim3(kThreads), 1024}, sum);
  }
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("max_index", cuda, dtype_of<T>, &pick<T, true>);
      backend::register_kernel("min_index", cuda, dtype_of<T>, &pick<T, false>);
      backend::register_kernel("cumsum", cuda, dtype_of<T>, &cumsum<T>);
    });

}  // namespace
}  // namespace brim::cuda
