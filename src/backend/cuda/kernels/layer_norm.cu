// layer_norm and its gradient: a warp or a block for each row; the gradients of weight and bias are
// a reduction down the columns.
#include <cmath>

#include "backend/cuda/elementwise.cuh"
#include "backend/cuda/moments.cuh"
#include "backend/cuda/reduce.cuh"

namespace brim::cuda {
namespace {

constexpr int kRun = 32;  // elements that a thread sums in their own type

template <class T>
__global__ void __launch_bounds__(kMostTeamThreads, 1)
    layer_norm_kernel(const T* x, const T* weight, const T* bias, T* y, Compute<T>* mean,
                      Compute<T>* scale, int64_t rows, int64_t n, double eps, int threads) {
  using C = Compute<T>;
  const Team team(threads);
  for (int64_t row = team.first_row; row < rows; row += team.rows_at_once) {
    const T* from = x + row * n;
    Moments moments;
    for (int64_t i = team.rank; i < n;) {
      FewMoments<C> few;
      for (int k = 0; k < kRun && i < n; ++k, i += team.size) few.add(widen(from[i]));
      moments = Moments::merged(moments, few.moments());
    }
    moments = team.combined(moments, Moments::merged);
    const C m = static_cast<C>(moments.mean);
    const C s = static_cast<C>(1 / std::sqrt(moments.var() + eps));
    if (team.rank == 0) {
      mean[row] = m;
      scale[row] = s;
    }
    for (int64_t i = team.rank; i < n; i += team.size) {
      C unit = (widen(from[i]) - m) * s;
      if (weight) unit *= widen(weight[i]);
      if (bias) unit += widen(bias[i]);
      y[row * n + i] = narrow<T>(unit);
    }
  }
}

template <class T>
void layer_norm(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& mean, Tensor& scale, double eps) {
  const int64_t rows = mean.numel(), n = rows > 0 ? x.numel() / rows : 0;
  if (rows == 0) return;
  const int threads = threads_per_row(n);
  launch_blocks(context, &layer_norm_kernel<T>, row_grid(rows, threads), data<const T>(x),
                optional<const T>(weight), optional<const T>(bias), data<T>(y),
                data<Compute<T>>(mean), data<Compute<T>>(scale), rows, n, eps, threads);
}

struct GradSums {
  double sum, dot;
  __device__ static GradSums added(const GradSums& a, const GradSums& b) {
    return {a.sum + b.sum, a.dot + b.dot};
  }
};

template <class T>
__global__ void __launch_bounds__(kMostTeamThreads, 1)
    layer_norm_grad_kernel(const T* dy, const T* x, const T* weight, const Compute<T>* mean,
                           const Compute<T>* scale, T* dx, int64_t rows, int64_t n, int threads) {
  using C = Compute<T>;
  const Team team(threads);
  for (int64_t row = team.first_row; row < rows; row += team.rows_at_once) {
    const T *up = dy + row * n, *from = x + row * n;
    const C m = mean[row], s = scale[row];
    const auto weighted = [&](int64_t i) {
      return weight ? widen(up[i]) * widen(weight[i]) : widen(up[i]);
    };
    GradSums total{};
    for (int64_t i = team.rank; i < n;) {
      C sum = 0, dot = 0;
      for (int k = 0; k < kRun && i < n; ++k, i += team.size) {
        const C g = weighted(i);
        sum += g;
        dot += g * (widen(from[i]) - m);
      }
      total = GradSums::added(total, {static_cast<double>(sum), static_cast<double>(dot)});
    }
    total = team.combined(total, GradSums::added);
    const double count = static_cast<double>(n), sd = static_cast<double>(s);
    const C shift = static_cast<C>(sd * total.sum / count);
    const C slope = static_cast<C>(sd * sd * sd * total.dot / count);
    for (int64_t i = team.rank; i < n; i += team.size)
      dx[row * n + i] = narrow<T>(s * weighted(i) - slope * (widen(from[i]) - m) - shift);
  }
}

/// The gradients of weight and bias: sums over rows.
template <class T>
struct ParameterGrad {
  struct Lane {
    Compute<T> weight, bias;
  };
  struct Total {
    double weight, bias;
  };
  const T *dy, *x;
  const Compute<T>*mean, *scale;
  T *dweight, *dbias;

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& a, int64_t at, int64_t row, int64_t) const {
    const Compute<T> g = brim::cuda::widen(dy[at]);
    a.weight += g * ((brim::cuda::widen(x[at]) - mean[row]) * scale[row]);
    a.bias += g;
  }
  __device__ Total widen(const Lane& a) const {
    return {static_cast<double>(a.weight), static_cast<double>(a.bias)};
  }
  __device__ Total combine(const Total& a, const Total& b) const {
    return {a.weight + b.weight, a.bias + b.bias};
  }
  __device__ void finish(int64_t i, const Total& total) const {
    dweight[i] = narrow<T>(static_cast<Compute<T>>(total.weight));
    dbias[i] = narrow<T>(static_cast<Compute<T>>(total.bias));
  }
};

template <class T>
void layer_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias) {
  using C = const Compute<T>;
  const int64_t rows = mean.numel(), n = dweight.numel();
  if (rows > 0 && n > 0) {
    const int threads = threads_per_row(n);
    launch_blocks(context, &layer_norm_grad_kernel<T>, row_grid(rows, threads), data<const T>(dy),
                  data<const T>(x), optional<const T>(weight), data<C>(mean), data<C>(scale),
                  data<T>(dx), rows, n, threads);
  }
  const ParameterGrad<T> op{data<const T>(dy), data<const T>(x), data<C>(mean),
                            data<C>(scale),    data<T>(dweight), data<T>(dbias)};
  reduce(context, op, ReduceShape::columns(rows, n));
}

template <class... T>
bool register_all() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  ((backend::register_kernel("layer_norm", cuda, dtype_of<T>, &layer_norm<T>),
    backend::register_kernel("layer_norm_grad", cuda, dtype_of<T>, &layer_norm_grad<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
