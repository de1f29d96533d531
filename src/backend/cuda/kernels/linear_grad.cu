// The gradient of a fully connected layer of few rows in one launch (see fused_linear.h). Some
// blocks make dw and db, the others dx:
// - dw: a thread has one column and some rows of dw; what it needs of dz lies in shared memory.
// - dx: a block has some columns and rows; its warps share the sum over the outputs, each loading
//   its weights at once, and their parts are added in order.
// Sizes beyond what few_rows_are_fast names are computed rightly too, but cuBLAS is faster there.
//
// The floor on an H200 for 400 -> 120 at batch 4: W and dw once, 0.4 MB in 0.08 us, so the launch
// and two accesses to memory one after the other (dz, then the rest): about 3 us.
#include <algorithm>
#include <cstdint>

#include "backend/cuda/device/thread_group.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/gemm/few_rows.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/fused/fused_linear.h"
#include "backend/has_kernel.h"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

constexpr int kBlock = 256, kWarps = kBlock / kWarpThreads;
constexpr int kOutputs = 8;           // rows of dw that a thread has
constexpr int kStagedRows = 64;       // of dz at a time, for dw
constexpr int kOfWarp = 16;           // weights that a lane loads at once
constexpr int kStaged = 16 * kBlock;  // numbers of dz at a time, for dx

/// A matrix of any strides; null: not there.
template <class T>
struct Strided {
  T* data = nullptr;
  int64_t row = 0, column = 0;

  explicit Strided(const Tensor& t) {
    if (!t.defined()) return;
    data = static_cast<T*>(t.raw());
    row = t.strides()[0], column = t.strides()[1];
  }
  __device__ T at(int64_t i, int64_t j) const { return data[i * row + j * column]; }
};

template <class T>
struct LinearGrad {
  Strided<const T> x, weight, dy, y;
  T *dx, *dw, *db;  // dense; dx and db may be null
  int64_t rows, inputs, outputs;
  int64_t column_blocks, weight_blocks;  // of dw

  __device__ Compute<T> dz(int64_t n, int64_t o) const {
    return y.data && widen(y.at(n, o)) <= 0 ? Compute<T>(0) : widen(dy.at(n, o));
  }
};

template <class T>
__device__ void grad_weight(const LinearGrad<T>& g, int64_t block) {
  using C = Compute<T>;
  C* const dz = shared_memory<C>();  // (kStagedRows, kOutputs)
  const int64_t i = block % g.column_blocks * kBlock + threadIdx.x;
  const int64_t o0 = block / g.column_blocks * kOutputs;
  const bool makes_bias = g.db && block % g.column_blocks == 0 && threadIdx.x < kOutputs;
  C sum[kOutputs] = {}, bias = 0;
  for (int64_t first = 0; first < g.rows; first += kStagedRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kStagedRows, g.rows - first));
    if (first > 0) __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < rows * kOutputs; k += kBlock) {
      const int64_t o = o0 + k % kOutputs;
      dz[k] = o < g.outputs ? g.dz(first + k / kOutputs, o) : C(0);
    }
    __syncthreads();
    if (i < g.inputs) {
#pragma unroll 8
      for (int n = 0; n < rows; ++n) {
        const C v = widen(g.x.at(first + n, i));
#pragma unroll
        for (int k = 0; k < kOutputs; ++k) sum[k] += dz[n * kOutputs + k] * v;
      }
    }
    if (makes_bias)
      for (int n = 0; n < rows; ++n) bias += dz[n * kOutputs + threadIdx.x];
  }
  if (makes_bias && o0 + threadIdx.x < g.outputs) g.db[o0 + threadIdx.x] = narrow<T>(bias);
  if (i >= g.inputs) return;
#pragma unroll
  for (int k = 0; k < kOutputs; ++k)
    if (o0 + k < g.outputs) g.dw[(o0 + k) * g.inputs + i] = narrow<T>(sum[k]);
}

template <class T>
__device__ void grad_x(const LinearGrad<T>& g, int64_t block) {
  using C = Compute<T>;
  constexpr int kDepth = kStaged / kFewRows;  // outputs at a time
  C* const dz = shared_memory<C>();           // (output, kFewRows); later the warps' sums
  const int t = static_cast<int>(threadIdx.x), lane = t % kWarpThreads, warp = t / kWarpThreads;
  const int64_t chunks = (g.rows + kFewRows - 1) / kFewRows;
  const int64_t n0 = block % chunks * kFewRows, i = block / chunks * kWarpThreads + lane;
  C sum[kFewRows] = {};
  for (int64_t first = 0; first < g.outputs; first += kDepth) {
    const int depth = static_cast<int>(std::min<int64_t>(kDepth, g.outputs - first));
    const auto load = [&](int from, C(&w)[kOfWarp]) {
#pragma unroll
      for (int k = 0; k < kOfWarp; ++k) {
        const int o = from + k * kWarps + warp;
        w[k] = o < depth && i < g.inputs ? widen(g.weight.at(first + o, i)) : C(0);
      }
    };
    C w[kOfWarp];
    load(0, w);  // on their way while dz is laid out
    if (first > 0) __syncthreads();
    for (int k = t; k < depth * kFewRows; k += kBlock) {
      const int64_t n = n0 + k % kFewRows;
      dz[k] = n < g.rows ? g.dz(n, first + k / kFewRows) : C(0);
    }
    __syncthreads();
    for (int from = 0; from < depth; from += kOfWarp * kWarps) {
      if (from > 0) load(from, w);
#pragma unroll
      for (int k = 0; k < kOfWarp; ++k) {
        const int o = from + k * kWarps + warp;
        if (o >= depth) break;
#pragma unroll
        for (int r = 0; r < kFewRows; ++r) sum[r] += dz[o * kFewRows + r] * w[k];
      }
    }
  }
  __syncthreads();
  C* const shared = dz;
#pragma unroll
  for (int r = 0; r < kFewRows; ++r) shared[(warp * kFewRows + r) * kWarpThreads + lane] = sum[r];
  __syncthreads();
  const int r = warp;
  if (r >= kFewRows || n0 + r >= g.rows || i >= g.inputs) return;
  C total = shared[r * kWarpThreads + lane];
  for (int k = 1; k < kWarps; ++k) total += shared[(k * kFewRows + r) * kWarpThreads + lane];
  g.dx[(n0 + r) * g.inputs + i] = narrow<T>(total);
}

template <class T>
__global__ void __launch_bounds__(kBlock) linear_grad_kernel(LinearGrad<T> g) {
  begin_kernel();
  const int64_t block = blockIdx.x;
  if (block < g.weight_blocks)
    grad_weight(g, block);
  else
    grad_x(g, block - g.weight_blocks);
}

template <class T>
void linear_grad(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& dy,
                 const Tensor& y, Tensor& dx, Tensor& dw, Tensor& db) {
  for (const Tensor* t : {&dx, &dw, &db})
    if (t->defined() && !t->is_contiguous())
      cannot_launch("linear_grad", "dx, dw and db must be contiguous");
  const auto address = [](Tensor& t) { return t.defined() ? static_cast<T*>(t.raw()) : nullptr; };
  LinearGrad<T> g{.x = Strided<const T>(x),
                  .weight = Strided<const T>(weight),
                  .dy = Strided<const T>(dy),
                  .y = Strided<const T>(y),
                  .dx = address(dx),
                  .dw = address(dw),
                  .db = address(db),
                  .rows = x.shape()[0],
                  .inputs = x.shape()[1],
                  .outputs = dy.shape()[1]};
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  // A block of no columns where there are no inputs: db is there all the same.
  g.column_blocks = std::max<int64_t>(1, ceil_div(g.inputs, kBlock));
  g.weight_blocks = ceil_div(g.outputs, kOutputs) * g.column_blocks;
  const int64_t image_blocks =
      g.dx ? ceil_div(g.inputs, kWarpThreads) * ceil_div(g.rows, kFewRows) : 0;
  const int64_t blocks = g.weight_blocks + image_blocks;
  if (blocks == 0) return;
  constexpr size_t kShared = sizeof(Compute<T>) * std::max({kStagedRows * kOutputs, kStaged,
                                                            kWarps * kFewRows * kWarpThreads});
  static_assert(kShared <= 48 << 10);
  const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kBlock), kShared};
  launch_blocks(context, &linear_grad_kernel<T>, grid, g);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("linear_grad", DeviceKind::cuda, dtype_of<T>, &linear_grad<T>);
    });

// Products of many rows belong to cuBLAS.
const bool limited = backend::register_limit<backend::LinearSize>(
    "linear_grad", DeviceKind::cuda, [](const backend::LinearSize& l) {
      return backend::few_rows_are_fast(l.rows, l.inputs, l.outputs);
    });

}  // namespace
}  // namespace brim::cuda
