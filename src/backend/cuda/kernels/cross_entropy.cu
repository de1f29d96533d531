// cross_entropy, its gradient, and both at once. A warp or a block works on each row.
#include <cmath>

#include "backend/cuda/reduce/class_loss_rows.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// stats: see ops/loss/class_loss.h; its last number is LossTotal's.
template <class T>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    cross_entropy_kernel(Rows<T> r, Losses<T> losses, Compute<T>* stats, Fault* fault,
                         const char* op, int threads) {
  begin_kernel();
  const ThreadGroup group(threads);
  for (int64_t row = group.first_row; row < r.n; row += group.rows_at_once) {
    Compute<T> m = 0, s = 0, loss = 0;
    if (r.counts(row)) {
      const auto sum = exp_sum(r, group, row);
      m = sum.largest;
      s = std::log(sum.sum);
      loss = row_loss(r, group, row, m, s);
    }
    if (group.rank != 0) continue;
    r.check(row, op, fault);
    stats[row] = m;
    stats[r.n + row] = s;
    losses.write(row, loss);
  }
}

constexpr const char* kCrossEntropy = "cross_entropy";

template <class T>
void cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                   const Tensor& weight, Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight, options);
  const int threads = threads_per_row(r.classes);
  Compute<T>* const kept = data<Compute<T>>(stats);
  with_losses(context, r, loss, kept + 2 * r.n, options.shape, [&](const Losses<T>& losses) {
    launch_blocks(context, &cross_entropy_kernel<T>, row_grid(r.n, threads), r, losses, kept,
                  fault_of(context.device().index), kCrossEntropy, threads);
  });
}

/// dx = g (a softmax(x) - b), b: the smoothed and weighted target, a: its sum.
template <class T>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    cross_entropy_grad_kernel(Rows<T> r, const T* dy, bool single, const Compute<T>* stats, T* dx,
                              int threads) {
  begin_kernel();
  using C = Compute<T>;
  const ThreadGroup group(threads);
  for (int64_t row = group.first_row; row < r.n; row += group.rows_at_once) {
    const T* x = r.x + row * r.classes;
    T* out = dx + row * r.classes;
    if (!r.counts(row)) {
      for (int64_t k = group.rank; k < r.classes; k += group.size) out[k] = narrow<T>(C(0));
      continue;
    }
    const C smooth = static_cast<C>(r.smooth());
    const C spread = smooth * static_cast<C>(total_weight(r, group));
    const C g = widen(dy[single ? row : 0]) / stats[2 * r.n];
    const C w = static_cast<C>(1 - r.smoothing) * r.factor(row), m = stats[row],
            s = stats[r.n + row];
    for (int64_t k = group.rank; k < r.classes; k += group.size) {
      C d = g * (w + spread) * std::exp((widen(x[k]) - m) - s);
      if (smooth > 0) d -= g * smooth * r.of_class(k);
      if (k == r.label[row]) d -= g * w;
      out[k] = narrow<T>(d);
    }
  }
}

template <class T>
void cross_entropy_grad(const Context& context, const Tensor& dy, const Tensor& x,
                        const Tensor& target, const Tensor& weight, const Tensor& stats, Tensor& dx,
                        const ClassLoss& options) {
  const Rows<T> r(x, target, weight, options);
  if (r.n * r.classes == 0) return;
  const int threads = threads_per_row(r.classes);
  launch_blocks(context, &cross_entropy_grad_kernel<T>, row_grid(r.n, threads), r,
                data<const T>(dy), options.shape == LossShape::single,
                data<const Compute<T>>(stats), data<T>(dx), threads);
}

template <class T>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    softmax_cross_entropy_kernel(Rows<T> r, Losses<T> losses, const Compute<T>* divisor, T* dx,
                                 Fault* fault, const char* op, int threads) {
  begin_kernel();
  const ThreadGroup group(threads);
  for (int64_t row = group.first_row; row < r.n; row += group.rows_at_once) {
    const Compute<T> loss = loss_and_grad(r, group, row, *divisor, dx, fault, op);
    if (group.rank == 0) losses.write(row, loss);
  }
}

/// All of it in one block, for few rows, where every launch counts.
template <class T>
__global__ void __launch_bounds__(kLossThreads, 1)
    softmax_cross_entropy_block(Rows<T> r, LossShape shape, T* loss, T* dx, Fault* fault,
                                const char* op) {
  begin_kernel();
  block_loss(r, shape, loss, dx, fault, op, shared_memory<double>());
}

/// cross_entropy and its gradient for an incoming gradient of 1.
template <class T>
void softmax_cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                           const Tensor& weight, Tensor& loss, Tensor& dx,
                           const ClassLoss& options) {
  using C = Compute<T>;
  const Rows<T> r(x, target, weight, options);
  Fault* const fault = fault_of(context.device().index);
  constexpr int64_t kFewRows = 128, kFewNumbers = 8192;
  if (r.n <= kFewRows && r.n * r.classes <= kFewNumbers) {
    const auto warps =
        static_cast<unsigned>(std::clamp<int64_t>(r.n, 1, kLossThreads / kWarpThreads));
    const Grid grid{dim3(1), dim3(warps * kWarpThreads), warps * sizeof(double)};
    return launch_blocks(context, &softmax_cross_entropy_block<T>, grid, r, options.shape,
                         data<T>(loss), data<T>(dx), fault, kCrossEntropy);
  }
  const int threads = threads_per_row(r.classes);
  const Workspace scratch = context.workspace(sizeof(C));
  C* const divisor = scratch.as<C>();
  total(context, LossTotal<T>{r, nullptr, options.shape, nullptr, divisor});
  with_losses(context, r, loss, static_cast<C*>(nullptr), options.shape,
              [&](const Losses<T>& losses) {
                launch_blocks(context, &softmax_cross_entropy_kernel<T>, row_grid(r.n, threads), r,
                              losses, divisor, data<T>(dx), fault, kCrossEntropy, threads);
              });
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("cross_entropy", DeviceKind::cuda, dtype_of<T>, &cross_entropy<T>);
      backend::register_kernel("cross_entropy_grad", DeviceKind::cuda, dtype_of<T>,
                               &cross_entropy_grad<T>);
      backend::register_kernel("softmax_cross_entropy", DeviceKind::cuda, dtype_of<T>,
                               &softmax_cross_entropy<T>);
    });

}  // namespace
}  // namespace brim::cuda
