// batch_norm, alone and with an addition and a ReLU behind it. Each way is a reduction of each
// channel, then a pass over the elements. Activations are row-major, or all are nhwc. In training,
// cuDNN may compute batch_norm alone and with both; not with a ReLU alone, whose gradient works out
// y again, to the bit. T is the type of activations, P that of parameters and
// running statistics (batch_norm.cuh).
#include "backend/fused/fused_norm.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/reduce/batch_norm.cuh"
#include "backend/cuda/reduce/channel_sums.cuh"
#include "backend/cuda/reduce/moments.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// Saves mean and scale of a channel and updates its running statistics.
template <class P>
struct Statistics {
  using C = Compute<P>;
  C *mean, *scale;
  P *running_mean, *running_var;
  double momentum, eps;

  __device__ void save(int64_t c, double m, double var) const {
    mean[c] = static_cast<C>(m);
    scale[c] = static_cast<C>(1 / std::sqrt(var + eps));
  }
  __device__ void update(int64_t c, double m, double var, double count) const {
    if (!running_mean || count == 0) return;
    const double unbiased = var * count / (count - 1);
    blend(running_mean[c], m);
    blend(running_var[c], unbiased);
  }
  __device__ void blend(P& kept, double value) const {
    const double before = static_cast<double>(widen(kept));
    kept = narrow<P>(static_cast<C>((1 - momentum) * before + momentum * value));
  }
};

template <class T, class P>
struct BatchMoments {
  using Lane = FewMoments<Compute<T>>;
  using Total = Moments;
  const T* x;
  Statistics<P> statistics;

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane.add(brim::cuda::widen(x[at]));
  }
  static constexpr int kUnrolled = sizeof(T) == 4 ? 8 : 4;  // as many as registers last for
  struct Of {};
  template <int Width>
  using Many = Pack<T, Width>;
  template <int N>
  __device__ void of_channels(int64_t, Of*) const {}
  template <int Width>
  __device__ Many<Width> read(int64_t i) const {
    return reinterpret_cast<const Many<Width>*>(x)[i];
  }
  template <int Width>
  __device__ void step(Lane* lanes, const Many<Width>& many, const Of*) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) lanes[k].add(brim::cuda::widen(many.at[k]));
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(x);
  }
  template <int N>
  bool loadable() const {
    return true;
  }
  __device__ Total widen(const Lane& lane) const { return lane.moments(); }
  __device__ Total combine(const Total& a, const Total& b) const { return Moments::merged(a, b); }
  __device__ void finish(int64_t c, const Total& m) const {
    statistics.save(c, m.mean, m.var());
    statistics.update(c, m.mean, m.var(), m.count);
  }
};

template <class P>
__global__ void fixed_kernel(Statistics<P> statistics, const P* mean, const P* var, int64_t count) {
  begin_kernel();
  for (int64_t c = first_index(); c < count; c += grid_size())
    statistics.save(c, static_cast<double>(widen(mean[c])), static_cast<double>(widen(var[c])));
}

/// Running statistics by the mean and scale of each channel.
template <class P>
__global__ void update_statistics_kernel(Statistics<P> statistics, double elements, int64_t count) {
  begin_kernel();
  for (int64_t c = first_index(); c < count; c += grid_size()) {
    const auto s = static_cast<double>(statistics.scale[c]);
    const double var = 1 / (s * s) - statistics.eps;
    statistics.update(c, static_cast<double>(statistics.mean[c]), var < 0 ? 0 : var, elements);
  }
}

template <class T, class P>
void forward(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& fixed_mean, const Tensor& fixed_var, const Tensor& residual,
             Tensor& running_mean, Tensor& running_var, Tensor& y, Tensor& mean, Tensor& scale,
             const backend::BatchNormParams& params, bool relu) {
  using C = Compute<T>;
  const Channels v(x);
  const Statistics<P> statistics{
      data<C>(mean),   data<C>(scale), optional<P>(running_mean), optional<P>(running_var),
      params.momentum, params.eps};
  if (params.training)
    reduce_channels<T>(context, BatchMoments<T, P>{data<const T>(x), statistics}, x, v);
  else
    launch(context, &fixed_kernel<P>, grid_for(v.count), statistics, data<const P>(fixed_mean),
           data<const P>(fixed_var), v.count);
  const Parameters<P> p{optional<const P>(weight), optional<const P>(bias), data<const C>(mean),
                        data<const C>(scale)};
  run_pass<T>(context,
              Normalise<T, P>{p, data<const T>(x), optional<const T>(residual), relu, data<T>(y)},
              v);
}

/// Whether cuDNN may be asked about these tensors: it wants all of them, and parameters of f32 or
/// f64 only.
template <class T, class P>
bool fits_dnn(std::initializer_list<const Tensor*> tensors) {
  return std::is_same_v<P, Compute<T>> && std::ranges::all_of(tensors, [](const Tensor* t) {
           return t->defined() && t->numel() > 0 && brim::cuda::is_aligned(t->raw(), 16);
         });
}

/// Whether cuDNN has done it: batch_norm, or with a residual all three.
template <class T, class P>
bool forward_by_dnn(const Context& context, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, const Tensor& residual, const Tensor& running_mean,
                    const Tensor& running_var, Tensor& y, Tensor& mean, Tensor& scale,
                    const backend::BatchNormParams& params) {
  using C = Compute<T>;
  if (!params.training || params.repeatable ||
      !fits_dnn<T, P>({&x, &y, &weight, &bias, &mean, &scale}))
    return false;
  const int64_t n = x.shape()[0], c = x.shape()[1];
  const bool is_fused = residual.defined();
  const Work own = [&](const Context& at) {
    Tensor none;
    forward<T, P>(at, x, weight, bias, {}, {}, residual, none, none, y, mean, scale, params,
                  is_fused);
  };
  const DnnBatchNorm norm{.dtype = dtype_of<T>,
                          .parameters = dtype_of<P>,
                          .nhwc = !x.is_contiguous(),
                          .n = n,
                          .c = c,
                          .pixels = x.numel() / (n * c),
                          .x = x.raw(),
                          .weight = weight.raw(),
                          .bias = bias.raw(),
                          .y = y.raw(),
                          .mean = mean.raw(),
                          .scale = scale.raw(),
                          .running_mean = running_mean.defined() ? running_mean.raw() : nullptr,
                          .running_var = running_var.defined() ? running_var.raw() : nullptr,
                          .momentum = params.momentum,
                          .eps = params.eps};
  if (!is_fused) return dnn_batch_norm(context, norm, own);
  if (!fits_dnn<T, P>({&residual})) return false;
  const auto update = [&](const Context& at, void* kept_mean, void* kept_var) {
    const Statistics<P> statistics{
        data<C>(mean),   data<C>(scale), static_cast<P*>(kept_mean), static_cast<P*>(kept_var),
        params.momentum, params.eps};
    launch(at, &update_statistics_kernel<P>, grid_for(c), statistics,
           static_cast<double>(x.numel() / c), c);
  };
  return dnn_batch_norm_relu(context, {norm, residual.raw(), update}, own);
}

template <class T, class P>
struct BatchGradSums {
  using C = Compute<T>;
  struct Lane {
    C sum, dot;  // of g and g (x - mean)
  };
  struct Total {
    double sum, dot;
  };
  Masked<T> masked;
  Parameters<P> p;
  C* slopes;  // of all channels, then their shifts
  int64_t channels;
  P *dweight, *dbias;
  double
      count;  // elements of a channel; 0 outside of training, where statistics do not depend on x

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& a, int64_t at, int64_t, int64_t c) const {
    add(a, masked.dy[at], masked.x[at], masked.y ? masked.y[at] : T{}, p.affine(c));
  }
  __device__ void add(Lane& a, T dy, T x, T y, const Affine<C>& f) const {
    const C v = brim::cuda::widen(x);
    const C g = masked.passed(brim::cuda::widen(dy), v, brim::cuda::widen(y), f);
    a.sum += g;
    a.dot += g * (v - f.mean);
  }
  static constexpr int kUnrolled = 2;
  using Of = Affine<C>;
  template <int Width>
  using Many = MaskedPacks<T, Width>;
  template <int N>
  __device__ void of_channels(int64_t c, Of* of) const {
    p.template affines<N>(c, of);
  }
  template <int Width>
  __device__ Many<Width> read(int64_t i) const {
    return masked.template read<Width>(i);
  }
  template <int Width>
  __device__ void step(Lane* lanes, const Many<Width>& many, const Of* of) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) add(lanes[k], many.dy.at[k], many.x.at[k], many.y.at[k], of[k]);
  }
  template <int Width>
  bool is_aligned() const {
    return masked.template is_aligned<Width>();
  }
  template <int N>
  bool loadable() const {
    return p.template loadable<N>();
  }
  __device__ Total widen(const Lane& a) const {
    return {static_cast<double>(a.sum), static_cast<double>(a.dot)};
  }
  __device__ Total combine(const Total& a, const Total& b) const {
    return {a.sum + b.sum, a.dot + b.dot};
  }
  // dx = a (g - mean(g) - unit mean(g unit)) = a g - slope (x - mean) - shift
  __device__ void finish(int64_t c, const Total& t) const {
    const double s = static_cast<double>(p.scale[c]);
    const double factor = p.weight ? s * static_cast<double>(brim::cuda::widen(p.weight[c])) : s;
    dweight[c] = narrow<P>(static_cast<C>(t.dot * s));
    dbias[c] = narrow<P>(static_cast<C>(t.sum));
    slopes[c] = count > 0 ? static_cast<C>(factor * t.dot * s * s / count) : C(0);
    slopes[channels + c] = count > 0 ? static_cast<C>(factor * t.sum / count) : C(0);
  }
};

template <class T, class P>
void backward(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& weight,
              const Tensor& bias, const Tensor& mean, const Tensor& scale, const Tensor& y,
              Tensor& dx, Tensor& dweight, Tensor& dbias, Tensor& dresidual, bool training,
              bool relu) {
  using C = Compute<T>;
  const Channels v(x);
  if (v.count == 0) return;
  const Parameters<P> p{optional<const P>(weight), optional<const P>(bias), data<const C>(mean),
                        data<const C>(scale)};
  const Masked<T> masked{data<const T>(dy), data<const T>(x), optional<const T>(y), relu};
  const Workspace scratch = context.workspace(static_cast<size_t>(2 * v.count) * sizeof(C));
  C* const slopes = scratch.as<C>();
  const double count = training ? static_cast<double>(v.numel / v.count) : 0;
  reduce_channels<T>(
      context,
      BatchGradSums<T, P>{masked, p, slopes, v.count, data<P>(dweight), data<P>(dbias), count}, x,
      v);
  run_pass<T>(context,
              BatchGrad<T, P>{masked, p, slopes, v.count, data<T>(dx), optional<T>(dresidual)}, v);
}

/// Whether cuDNN has done it: the gradient of batch_norm.
template <class T, class P>
bool backward_by_dnn(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias, bool training) {
  if (!training || !fits_dnn<T, P>({&dy, &x, &dx, &weight, &mean, &scale, &dweight, &dbias}))
    return false;
  const int64_t n = x.shape()[0], c = x.shape()[1];
  const Work own = [&](const Context& at) {
    Tensor none;
    backward<T, P>(at, dy, x, weight, {}, mean, scale, {}, dx, dweight, dbias, none, true, false);
  };
  const DnnBatchNormGrad norm{.dtype = dtype_of<T>,
                              .parameters = dtype_of<P>,
                              .nhwc = !x.is_contiguous(),
                              .n = n,
                              .c = c,
                              .pixels = x.numel() / (n * c),
                              .dy = dy.raw(),
                              .x = x.raw(),
                              .weight = weight.raw(),
                              .mean = mean.raw(),
                              .scale = scale.raw(),
                              .dx = dx.raw(),
                              .dweight = dweight.raw(),
                              .dbias = dbias.raw()};
  return dnn_batch_norm_grad(context, norm, own);
}

/// Calls body(std::type_identity<P>()) for parameters like the first of `tensors` that there is.
template <class T, class Body>
void with_parameters(std::initializer_list<const Tensor*> tensors, const Body& body) {
  if constexpr (!std::is_same_v<T, Compute<T>>)
    for (const Tensor* t : tensors)
      if (t->defined()) {
        if (t->dtype() == dtype_of<Compute<T>>) return body(std::type_identity<Compute<T>>());
        break;
      }
  body(std::type_identity<T>());
}

template <class T>
void batch_norm(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& fixed_mean, const Tensor& fixed_var, Tensor& running_mean,
                Tensor& running_var, Tensor& y, Tensor& mean, Tensor& scale,
                const backend::BatchNormParams& params) {
  with_parameters<T>({&weight, &bias, &fixed_mean, &running_mean},
                     [&]<class P>(std::type_identity<P>) {
                       if (!forward_by_dnn<T, P>(context, x, weight, bias, {}, running_mean,
                                                 running_var, y, mean, scale, params))
                         forward<T, P>(context, x, weight, bias, fixed_mean, fixed_var, {},
                                       running_mean, running_var, y, mean, scale, params, false);
                     });
}

template <class T>
void batch_norm_relu(const Context& context, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, const Tensor& fixed_mean, const Tensor& fixed_var,
                     const Tensor& residual, Tensor& running_mean, Tensor& running_var, Tensor& y,
                     Tensor& mean, Tensor& scale, const backend::BatchNormParams& params) {
  with_parameters<T>({&weight, &bias, &fixed_mean, &running_mean}, [&]<class P>(
                                                                       std::type_identity<P>) {
    if (residual.defined() && forward_by_dnn<T, P>(context, x, weight, bias, residual, running_mean,
                                                   running_var, y, mean, scale, params))
      return;
    forward<T, P>(context, x, weight, bias, fixed_mean, fixed_var, residual, running_mean,
                  running_var, y, mean, scale, params, true);
  });
}

template <class T>
void batch_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias, bool training) {
  with_parameters<T>({&dweight}, [&]<class P>(std::type_identity<P>) {
    if (backward_by_dnn<T, P>(context, dy, x, weight, mean, scale, dx, dweight, dbias, training))
      return;
    Tensor none;
    backward<T, P>(context, dy, x, weight, {}, mean, scale, {}, dx, dweight, dbias, none, training,
                   false);
  });
}

template <class T>
void batch_norm_relu_grad(const Context& context, const Tensor& dy, const Tensor& x,
                          const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& scale, const Tensor& y, Tensor& dx, Tensor& dweight,
                          Tensor& dbias, Tensor& dresidual, bool training) {
  with_parameters<T>({&dweight}, [&]<class P>(std::type_identity<P>) {
    backward<T, P>(context, dy, x, weight, bias, mean, scale, y, dx, dweight, dbias, dresidual,
                   training, true);
  });
}

template <class T>
void batch_norm_again(const Context& context, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& mean, const Tensor& scale,
                      const Tensor& residual, Tensor& y, bool relu) {
  using C = Compute<T>;
  with_parameters<T>({&weight, &bias}, [&]<class P>(std::type_identity<P>) {
    const Parameters<P> p{optional<const P>(weight), optional<const P>(bias), data<const C>(mean),
                          data<const C>(scale)};
    run_pass<T>(context,
                Normalise<T, P>{p, data<const T>(x), optional<const T>(residual), relu, data<T>(y)},
                Channels(x));
  });
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DType kType = dtype_of<T>;
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("batch_norm", cuda, kType, &batch_norm<T>);
      backend::register_kernel("batch_norm_grad", cuda, kType, &batch_norm_grad<T>);
      backend::register_kernel("batch_norm_relu", cuda, kType, &batch_norm_relu<T>);
      backend::register_kernel("batch_norm_again", cuda, kType, &batch_norm_again<T>);
      backend::register_kernel("batch_norm_relu_grad", cuda, kType, &batch_norm_relu_grad<T>);
    });

}  // namespace
}  // namespace brim::cuda
