// cross_entropy, its gradient, and both at once. A warp or a block works on each row.
#include <cmath>

#include "backend/cuda/class_loss.cuh"
#include "backend/cuda/softmax.cuh"

namespace brim::cuda {
namespace {

/// The loss of a row whose largest logit is m and whose sum of exponentials is e^s; the whole team
/// calls it.
template <class T>
__device__ Compute<T> row_loss(const Rows<T>& r, const Team& team, int64_t row, Compute<T> m,
                               Compute<T> s) {
  using C = Compute<T>;
  const T* x = r.x + row * r.classes;
  // (m - x) + s and not (m + s) - x: exact when all logits are large.
  const C single = r.factor(row) * ((m - widen(x[r.label[row]])) + s);
  const double smooth = r.smooth();
  if (smooth == 0) return single;
  double spread = 0;
  for (int64_t k = team.rank; k < r.classes; k += team.size)
    spread += static_cast<double>(r.of_class(k)) *
              (static_cast<double>(m - widen(x[k])) + static_cast<double>(s));
  return static_cast<C>((1 - r.smoothing) * static_cast<double>(single) +
                        smooth * team.sum(spread));
}

/// Largest logit and sum of exponentials of a row.
template <class T>
__device__ ExpSum<Compute<T>> exp_sum(const Rows<T>& r, const Team& team, int64_t row) {
  using Sum = ExpSum<Compute<T>>;
  Sum sum;
  for (int64_t k = team.rank; k < r.classes; k += team.size)
    sum.add(widen(r.x[row * r.classes + k]));
  return team.combined(sum, Sum::joined);
}

/// The classes' weights added up, for smoothed targets; 0 without smoothing.
template <class T>
__device__ double total_weight(const Rows<T>& r, const Team& team) {
  if (r.smoothing <= 0 || !r.weight) return r.smoothing > 0 ? static_cast<double>(r.classes) : 0;
  double sum = 0;
  for (int64_t k = team.rank; k < r.classes; k += team.size)
    sum += static_cast<double>(r.of_class(k));
  return team.sum(sum);
}

/// stats: see ops/loss/class_loss.h; its last number is LossTotal's.
template <class T>
__global__ void cross_entropy_kernel(Rows<T> r, Losses<T> losses, Compute<T>* stats, Fault* fault,
                                     const char* op, int threads) {
  const Team team(threads);
  for (int64_t row = team.first_row; row < r.n; row += team.rows_at_once) {
    Compute<T> m = 0, s = 0, loss = 0;
    if (r.counts(row)) {
      const auto sum = exp_sum(r, team, row);
      m = sum.largest;
      s = std::log(sum.sum);
      loss = row_loss(r, team, row, m, s);
    }
    if (team.rank != 0) continue;
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
__global__ void cross_entropy_grad_kernel(Rows<T> r, const T* dy, bool single,
                                          const Compute<T>* stats, T* dx, int threads) {
  using C = Compute<T>;
  const Team team(threads);
  for (int64_t row = team.first_row; row < r.n; row += team.rows_at_once) {
    const T* x = r.x + row * r.classes;
    T* out = dx + row * r.classes;
    if (!r.counts(row)) {
      for (int64_t k = team.rank; k < r.classes; k += team.size) out[k] = narrow<T>(C(0));
      continue;
    }
    const C smooth = static_cast<C>(r.smooth());
    const C spread = smooth * static_cast<C>(total_weight(r, team));
    const C g = widen(dy[single ? row : 0]) / stats[2 * r.n];
    const C w = static_cast<C>(1 - r.smoothing) * r.factor(row), m = stats[row],
            s = stats[r.n + row];
    for (int64_t k = team.rank; k < r.classes; k += team.size) {
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

/// The loss of a row; writes its gradient for an incoming gradient of 1.
template <class T>
__device__ Compute<T> loss_and_grad(const Rows<T>& r, const Team& team, int64_t row,
                                    Compute<T> divisor, T* dx, Fault* fault, const char* op) {
  using C = Compute<T>;
  const T* x = r.x + row * r.classes;
  T* out = dx + row * r.classes;
  C loss = 0;
  if (r.counts(row)) {
    const auto sum = exp_sum(r, team, row);
    loss = row_loss(r, team, row, sum.largest, std::log(sum.sum));
    const C smooth = static_cast<C>(r.smooth());
    const C spread = smooth * static_cast<C>(total_weight(r, team));
    const C g = C(1) / divisor, w = static_cast<C>(1 - r.smoothing) * r.factor(row);
    const C scale = g * (w + spread) / sum.sum;
    for (int64_t k = team.rank; k < r.classes; k += team.size) {
      C d = scale * std::exp(widen(x[k]) - sum.largest);
      if (smooth > 0) d -= g * smooth * r.of_class(k);
      if (k == r.label[row]) d -= g * w;
      out[k] = narrow<T>(d);
    }
  } else {
    for (int64_t k = team.rank; k < r.classes; k += team.size) out[k] = narrow<T>(C(0));
  }
  if (team.rank == 0) r.check(row, op, fault);
  return loss;
}

template <class T>
__global__ void softmax_cross_entropy_kernel(Rows<T> r, Losses<T> losses, const Compute<T>* divisor,
                                             T* dx, Fault* fault, const char* op, int threads) {
  const Team team(threads);
  for (int64_t row = team.first_row; row < r.n; row += team.rows_at_once) {
    const Compute<T> loss = loss_and_grad(r, team, row, *divisor, dx, fault, op);
    if (team.rank == 0) losses.write(row, loss);
  }
}

/// All of it in one block, a warp for each row: for few rows, where every launch counts.
template <class T>
__global__ void softmax_cross_entropy_block(Rows<T> r, LossShape shape, T* loss, T* dx,
                                            Fault* fault, const char* op) {
  using C = Compute<T>;
  const auto add = [](double a, double b) { return a + b; };
  double* const room = shared_memory<double>();
  const Team team(kWarpThreads);
  double weight = 0;
  for (int64_t row = threadIdx.x; row < r.n; row += blockDim.x)
    if (r.counts(row)) weight += static_cast<double>(r.factor(row));
  weight = combine_block(weight, room, add);
  const double by = shape == LossShape::mean ? weight : 1;
  double sum = 0;
  for (int64_t row = team.first_row; row < r.n; row += team.rows_at_once) {
    const C of_row = loss_and_grad(r, team, row, static_cast<C>(by), dx, fault, op);
    if (team.rank != 0) continue;
    if (shape == LossShape::single)
      loss[row] = narrow<T>(of_row);
    else
      sum += static_cast<double>(of_row);
  }
  sum = combine_block(sum, room, add);
  if (threadIdx.x == 0 && shape != LossShape::single) *loss = narrow<T>(static_cast<C>(sum / by));
}

/// cross_entropy and its gradient for an incoming gradient of 1.
template <class T>
void softmax_cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                           const Tensor& weight, Tensor& loss, Tensor& dx,
                           const ClassLoss& options) {
  using C = Compute<T>;
  const Rows<T> r(x, target, weight, options);
  Fault* const fault = fault_of(context.device().index);
  constexpr int64_t kFewRows = 128, kFewClasses = 1024;
  if (r.n <= kFewRows && r.classes <= kFewClasses) {
    const auto warps = static_cast<unsigned>(std::clamp<int64_t>(r.n, 1, 32));
    const Grid grid{dim3(1), dim3(warps * kWarpThreads), warps * sizeof(double)};
    return launch_blocks(context, &softmax_cross_entropy_block<T>, grid, r, options.shape,
                         data<T>(loss), data<T>(dx), fault, kCrossEntropy);
  }
  const int threads = threads_per_row(r.classes);
  const Workspace room = context.workspace(sizeof(C));
  C* const divisor = room.as<C>();
  total(context, LossTotal<T>{r, nullptr, options.shape, nullptr, divisor});
  with_losses(context, r, loss, static_cast<C*>(nullptr), options.shape,
              [&](const Losses<T>& losses) {
                launch_blocks(context, &softmax_cross_entropy_kernel<T>, row_grid(r.n, threads), r,
                              losses, divisor, data<T>(dx), fault, kCrossEntropy, threads);
              });
}

template <class... T>
bool register_all() {
  ((backend::register_kernel("cross_entropy", DeviceKind::cuda, dtype_of<T>, &cross_entropy<T>),
    backend::register_kernel("cross_entropy_grad", DeviceKind::cuda, dtype_of<T>,
                             &cross_entropy_grad<T>),
    backend::register_kernel("softmax_cross_entropy", DeviceKind::cuda, dtype_of<T>,
                             &softmax_cross_entropy<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
