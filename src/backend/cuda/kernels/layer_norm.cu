// layer_norm and its gradient: a warp or a block for each row; the gradients of weight and bias are
// a reduction down the columns.
#include <cmath>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/moments.cuh"
#include "backend/cuda/reduce/normalized.cuh"
#include "backend/cuda/reduce/reduce.cuh"
#include "backend/cuda/reduce/row_packs.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

constexpr int kRun = 32;  // elements that a thread sums in their own type

template <int Width, class T>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    layer_norm_kernel(const T* x, const T* weight, const T* bias, T* y, Compute<T>* mean,
                      Compute<T>* scale, int64_t rows, int64_t n, double eps, int threads,
                      bool whole) {
  begin_kernel();
  using C = Compute<T>;
  using Loaded = Pack<T, Width>;
  const ThreadGroup group(threads);
  for (int64_t row = group.first_row; row < rows; row += group.rows_at_once) {
    const auto load = [&](int64_t i) { return read_pack<Width>(x + row * n + i, whole); };
    RowShare<Width, Loaded> share(group, n);
    share.read(load);
    Moments moments;
    FewMoments<C> few;
    share.template each<kRun / Width>(
        load,
        [&](const Loaded& in, int64_t) {
#pragma unroll
          for (int k = 0; k < Width; ++k) few.add(widen(in.at[k]));
        },
        [&] {
          moments = Moments::merged(moments, few.moments());
          few = {};
        });
    moments = group.combined(moments, Moments::merged);
    const C m = static_cast<C>(moments.mean);
    const C s = static_cast<C>(1 / std::sqrt(moments.var() + eps));
    if (group.rank == 0) {
      mean[row] = m;
      scale[row] = s;
    }
    share.each(load, [&](const Loaded& in, int64_t i) {
      write_pack<Width>(y + row * n + i, normalized<Width>(in, m, s, weight, bias, i, whole),
                        whole);
    });
  }
}

template <class T>
void layer_norm(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& mean, Tensor& scale, double eps) {
  const int64_t rows = mean.numel(), n = rows > 0 ? x.numel() / rows : 0;
  if (rows == 0) return;
  const int threads = threads_per_row(n);
  const auto *w = optional<const T>(weight), *b = optional<const T>(bias);
  with_row_packs<T>(n, {x.raw(), w, b, y.raw()}, [&]<int Width>(bool whole) {
    launch_blocks(context, &layer_norm_kernel<Width, T>, row_grid(rows, threads), data<const T>(x),
                  w, b, data<T>(y), data<Compute<T>>(mean), data<Compute<T>>(scale), rows, n, eps,
                  threads, whole);
  });
}

struct GradSums {
  double sum, dot;
  __device__ static GradSums added(const GradSums& a, const GradSums& b) {
    return {a.sum + b.sum, a.dot + b.dot};
  }
};

/// What a row's gradient reads of a pack.
template <class T, int Width>
struct NormGradPack {
  Pack<T, Width> dy, x;
};

template <int Width, class T>
__global__ void __launch_bounds__(kMaxGroupThreads, 1)
    layer_norm_grad_kernel(const T* dy, const T* x, const T* weight, const Compute<T>* mean,
                           const Compute<T>* scale, const T* residual, T* dx, int64_t rows,
                           int64_t n, int threads, bool whole) {
  begin_kernel();
  using C = Compute<T>;
  using Loaded = NormGradPack<T, Width>;
  const ThreadGroup group(threads);
  for (int64_t row = group.first_row; row < rows; row += group.rows_at_once) {
    const auto load = [&](int64_t i) {
      return Loaded{read_pack<Width>(dy + row * n + i, whole),
                    read_pack<Width>(x + row * n + i, whole)};
    };
    RowShare<Width, Loaded> share(group, n);
    share.read(load);
    const C m = mean[row], s = scale[row];
    // Calls f(k, the weighted gradient, x - mean) for the elements of a pack.
    const auto for_each = [&](const Loaded& in, int64_t i, const auto& f) {
      const Pack<T, Width> w = weight ? read_pack<Width>(weight + i, whole) : Pack<T, Width>{};
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const C g = widen(in.dy.at[k]);
        f(k, weight ? g * widen(w.at[k]) : g, widen(in.x.at[k]) - m);
      }
    };
    GradSums total{};
    C sum = 0, dot = 0;
    share.template each<kRun / Width>(
        load,
        [&](const Loaded& in, int64_t i) {
          for_each(in, i, [&](int, C g, C d) {
            sum += g;
            dot += g * d;
          });
        },
        [&] {
          total = GradSums::added(total, {static_cast<double>(sum), static_cast<double>(dot)});
          sum = dot = 0;
        });
    total = group.combined(total, GradSums::added);
    const double count = static_cast<double>(n), sd = static_cast<double>(s);
    const C shift = static_cast<C>(sd * total.sum / count);
    const C slope = static_cast<C>(sd * sd * sd * total.dot / count);
    share.each(load, [&](const Loaded& in, int64_t i) {
      Pack<T, Width> out;
      for_each(in, i, [&](int k, C g, C d) { out.at[k] = narrow<T>(s * g - slope * d - shift); });
      if (residual) {
        const Pack<T, Width> more = read_pack<Width>(residual + row * n + i, whole);
#pragma unroll
        for (int k = 0; k < Width; ++k) out.at[k] = narrow<T>(widen(more.at[k]) + widen(out.at[k]));
      }
      write_pack<Width>(dx + row * n + i, out, whole);
    });
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

/// dx may be the residual, dy, or x.
template <class T>
void layer_norm_grad_add(const Context& context, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& mean, const Tensor& scale,
                         const Tensor& residual, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  using C = const Compute<T>;
  const int64_t rows = mean.numel(), n = dweight.numel();
  // First, as dx may be written onto dy.
  const ParameterGrad<T> op{data<const T>(dy), data<const T>(x), data<C>(mean),
                            data<C>(scale),    data<T>(dweight), data<T>(dbias)};
  reduce(context, op, ReduceShape::columns(rows, n));
  if (rows == 0 || n == 0) return;
  const int threads = threads_per_row(n);
  const auto *w = optional<const T>(weight), *more = optional<const T>(residual);
  with_row_packs<T>(n, {dy.raw(), x.raw(), w, more, dx.raw()}, [&]<int Width>(bool whole) {
    launch_blocks(context, &layer_norm_grad_kernel<Width, T>, row_grid(rows, threads),
                  data<const T>(dy), data<const T>(x), w, data<C>(mean), data<C>(scale), more,
                  data<T>(dx), rows, n, threads, whole);
  });
}

template <class T>
void layer_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias) {
  layer_norm_grad_add<T>(context, dy, x, weight, mean, scale, Tensor(), dx, dweight, dbias);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("layer_norm", cuda, dtype_of<T>, &layer_norm<T>);
      backend::register_kernel("layer_norm_grad", cuda, dtype_of<T>, &layer_norm_grad<T>);
      backend::register_kernel("layer_norm_grad_add", cuda, dtype_of<T>, &layer_norm_grad_add<T>);
    });

}  // namespace
}  // namespace brim::cuda
