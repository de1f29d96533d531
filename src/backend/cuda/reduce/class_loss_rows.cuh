// cross_entropy of rows of logits, with its gradient: what a group of threads does for one row, and
// a block for some.
#pragma once

#include <cmath>

#include "backend/cuda/reduce/class_loss.cuh"
#include "backend/cuda/reduce/softmax.cuh"

namespace brim::cuda {

/// The loss of a row whose largest logit is m and whose sum of exponentials is e^s; the whole group
/// calls it.
template <class T>
__device__ Compute<T> row_loss(const Rows<T>& r, const ThreadGroup& group, int64_t row,
                               Compute<T> m, Compute<T> s) {
  using C = Compute<T>;
  const T* x = r.x + row * r.classes;
  // (m - x) + s and not (m + s) - x: exact when all logits are large.
  const C single = r.factor(row) * ((m - widen(x[r.label[row]])) + s);
  const double smooth = r.smooth();
  if (smooth == 0) return single;
  double spread = 0;
  for (int64_t k = group.rank; k < r.classes; k += group.size)
    spread += static_cast<double>(r.of_class(k)) *
              (static_cast<double>(m - widen(x[k])) + static_cast<double>(s));
  return static_cast<C>((1 - r.smoothing) * static_cast<double>(single) +
                        smooth * group.sum(spread));
}

/// Largest logit and sum of exponentials of a row.
template <class T>
__device__ ExpSum<Compute<T>> exp_sum(const Rows<T>& r, const ThreadGroup& group, int64_t row) {
  using Sum = ExpSum<Compute<T>>;
  Sum sum;
  for (int64_t k = group.rank; k < r.classes; k += group.size)
    sum.add(widen(r.x[row * r.classes + k]));
  return group.combined(sum, Sum::joined);
}

/// The classes' weights added up, for smoothed targets; 0 without smoothing.
template <class T>
__device__ double total_weight(const Rows<T>& r, const ThreadGroup& group) {
  if (r.smoothing <= 0 || !r.weight) return r.smoothing > 0 ? static_cast<double>(r.classes) : 0;
  double sum = 0;
  for (int64_t k = group.rank; k < r.classes; k += group.size)
    sum += static_cast<double>(r.of_class(k));
  return group.sum(sum);
}

/// The loss of a row; writes its gradient for an incoming gradient of 1.
template <class T>
__device__ Compute<T> loss_and_grad(const Rows<T>& r, const ThreadGroup& group, int64_t row,
                                    Compute<T> divisor, T* dx, Fault* fault, const char* op) {
  using C = Compute<T>;
  const T* x = r.x + row * r.classes;
  T* out = dx + row * r.classes;
  C loss = 0;
  if (r.counts(row)) {
    const auto sum = exp_sum(r, group, row);
    loss = row_loss(r, group, row, sum.largest, std::log(sum.sum));
    const C smooth = static_cast<C>(r.smooth());
    const C spread = smooth * static_cast<C>(total_weight(r, group));
    const C g = C(1) / divisor, w = static_cast<C>(1 - r.smoothing) * r.factor(row);
    const C scale = g * (w + spread) / sum.sum;
    for (int64_t k = group.rank; k < r.classes; k += group.size) {
      C d = scale * std::exp(widen(x[k]) - sum.largest);
      if (smooth > 0) d -= g * smooth * r.of_class(k);
      if (k == r.label[row]) d -= g * w;
      out[k] = narrow<T>(d);
    }
  } else {
    for (int64_t k = group.rank; k < r.classes; k += group.size) out[k] = narrow<T>(C(0));
  }
  if (group.rank == 0) r.check(row, op, fault);
  return loss;
}

constexpr int kLossThreads = 512;  // of a block at most, a multiple of 32

/// The losses and gradients of all rows, a warp for each row in turn, by all threads of the block.
/// `partial` holds a number for each warp.
template <class T>
__device__ void block_loss(const Rows<T>& r, LossShape shape, T* loss, T* dx, Fault* fault,
                           const char* op, double* partial) {
  const auto add = [](double a, double b) { return a + b; };
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
  const ThreadGroup group(kWarpThreads);
  double weight = 0;
  for (int64_t row = threadIdx.x; row < r.n; row += blockDim.x)
    if (r.counts(row)) weight += static_cast<double>(r.factor(row));
  weight = combine_block(weight, partial, add);
  const double by = shape == LossShape::mean ? weight : 1;
  double sum = 0;
  for (int64_t row = warp; row < r.n; row += warps) {
    const Compute<T> of_row =
        loss_and_grad(r, group, row, static_cast<Compute<T>>(by), dx, fault, op);
    if (group.rank != 0) continue;
    if (shape == LossShape::single)
      loss[row] = narrow<T>(of_row);
    else
      sum += static_cast<double>(of_row);
  }
  sum = combine_block(sum, partial, add);
  if (threadIdx.x == 0 && shape != LossShape::single)
    *loss = narrow<T>(static_cast<Compute<T>>(sum / by));
}

}  // namespace brim::cuda
