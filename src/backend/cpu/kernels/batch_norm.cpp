// batch_norm on the CPU, alone and with an addition and a ReLU behind it. Two passes over memory
// each way: one for sums, one for results. Sums are f64 sums of short blocks in a fixed order, so
// the number of threads does not change them. Activations of 16 bits are read and written as such.
#include "backend/fused/fused_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/batch_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <cmath>
#include <tuple>

#include "backend/cpu/elementwise/narrow_through_f32.h"
#include "backend/cpu/reduce/batch_norm_narrow-inl.h"
#include "backend/cpu/runtime/isa.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Statistics to what a pass needs: mean and scale are saved, running statistics updated.
template <class T>
struct Statistics {
  const T *weight, *bias;
  T *running_mean, *running_var, *mean, *scale;
  backend::BatchNormParams params;

  Affine<T> take(int64_t c, double m, double var, double count) const {
    mean[c] = static_cast<T>(m);
    scale[c] = static_cast<T>(1 / std::sqrt(var + params.eps));
    if (running_mean && count > 0) {
      const double p = params.momentum, unbiased = var * count / (count - 1);
      running_mean[c] = static_cast<T>((1 - p) * running_mean[c] + p * m);
      running_var[c] = static_cast<T>((1 - p) * running_var[c] + p * unbiased);
    }
    return {mean[c], weight ? scale[c] * weight[c] : scale[c], bias ? bias[c] : T(0)};
  }
};

/// Of activations stored as W.
template <class T, class W>
void forward(const Context& context, const Tensor& tx, const Tensor& weight, const Tensor& bias,
             const Tensor& fixed_mean, const Tensor& fixed_var, const Tensor& residual,
             Tensor& running_mean, Tensor& running_var, Tensor& ty, Tensor& mean, Tensor& scale,
             const backend::BatchNormParams& params, bool relu) {
  const T *fm = in<T>(fixed_mean), *fv = in<T>(fixed_var);
  const W *x = in<W>(tx), *add = in<W>(residual);
  W* y = out<W>(ty);
  const Statistics<T> statistics{
      in<T>(weight), in<T>(bias), out<T>(running_mean), out<T>(running_var), out<T>(mean),
      out<T>(scale), params};
  const Layout v(tx);
  const double count = static_cast<double>(v.n * v.size);
  if (!v.by_pixels) {
    v.each_channel([&](int64_t c) {
      Moments m;
      if (params.training)
        v.runs(c, std::tuple(x), [&](int64_t at) { channel_moments(x + at, v.size, m); });
      const Affine<T> f = params.training ? statistics.take(c, m.mean, m.var(), count)
                                          : statistics.take(c, fm[c], fv[c], 0);
      v.runs(c, std::tuple(x, add, y), [&](int64_t at) {
        normalise_run(x + at, v.size, f, add ? add + at : nullptr, relu, y + at);
      });
    });
    return;
  }
  const PixelParts parts(v);
  const Workspace workspace = context.workspace(parts.bytes<Moments>() + parts.bytes<Affine<T>>(1));
  Moments* moments = workspace.as<Moments>();
  Columns<T> f(moments + parts.count * v.channels, v.channels);
  if (params.training)
    parts.each([&](int64_t part, int64_t begin, int64_t end) {
      pixel_moments(x, v.channels, begin, end, moments + part * v.channels);
    });
  for (int64_t c = 0; c < v.channels; ++c) {
    if (!params.training) {
      f.set(c, statistics.take(c, fm[c], fv[c], 0));
      continue;
    }
    Moments m;
    for (int64_t part = 0; part < parts.count; ++part) m.merge(moments[part * v.channels + c]);
    f.set(c, statistics.take(c, m.mean, m.var(), count));
  }
  parts.each([&](int64_t, int64_t begin, int64_t end) {
    normalise_pixels(x, v.channels, begin, end, f, add, relu, y);
  });
}

template <class T, class W>
void backward(const Context& context, const Tensor& tdy, const Tensor& tx, const Tensor& weight,
              const Tensor& bias, const Tensor& tmean, const Tensor& tscale, const Tensor& ty,
              Tensor& tdx, Tensor& dweight, Tensor& dbias, Tensor& dresidual, bool training,
              bool relu) {
  const T *w = in<T>(weight), *b = in<T>(bias), *mean = in<T>(tmean), *scale = in<T>(tscale);
  const W *dy = in<W>(tdy), *x = in<W>(tx), *y = in<W>(ty);
  W *dx = out<W>(tdx), *dres = out<W>(dresidual);
  T *dw = out<T>(dweight), *db = out<T>(dbias);
  const Layout v(tx);
  const double count = static_cast<double>(v.n * v.size);
  const Mask mask = !relu ? Mask::none : y ? Mask::by_y : Mask::by_x;
  const auto affine = [&](int64_t c) {
    return Affine<T>{mean[c], w ? scale[c] * w[c] : scale[c], b ? b[c] : T(0)};
  };
  // dx = a (g - mean(g) - unit mean(g unit)) = a g - slope (x - mean) - shift
  const auto finish = [&](int64_t c, double sum, double dot) {
    const double s = scale[c], factor = w ? s * static_cast<double>(w[c]) : s;
    dw[c] = static_cast<T>(dot * s);
    db[c] = static_cast<T>(sum);
    const bool whole = training && count > 0;
    return Slope<T>{mean[c], static_cast<T>(factor),
                    whole ? static_cast<T>(factor * dot * s * s / count) : T(0),
                    whole ? static_cast<T>(factor * sum / count) : T(0)};
  };
  if (!v.by_pixels) {
    v.each_channel([&](int64_t c) {
      const Affine<T> f = affine(c);
      double sum = 0, dot = 0;
      v.runs(c, std::tuple(dy, x, y, dres), [&](int64_t at) {
        run_sums(mask, dy + at, x + at, y ? y + at : nullptr, v.size, f, dres ? dres + at : nullptr,
                 sum, dot);
      });
      const Slope<T> s = finish(c, sum, dot);
      v.runs(c, std::tuple(dy, x, y, dx), [&](int64_t at) {
        run_gradient(mask, dy + at, x + at, y ? y + at : nullptr, v.size, f, s, dx + at);
      });
    });
    return;
  }
  const PixelParts parts(v);
  const Workspace workspace = context.workspace(
      parts.bytes<GradSums>() + parts.bytes<Affine<T>>(1) + parts.bytes<Slope<T>>(1));
  GradSums* sums = workspace.as<GradSums>();
  Columns<T> f(sums + parts.count * v.channels, v.channels);
  SlopeColumns<T> s(f.end(), v.channels);
  for (int64_t c = 0; c < v.channels; ++c) f.set(c, affine(c));
  parts.each([&](int64_t part, int64_t begin, int64_t end) {
    pixel_sums(mask, dy, x, y, v.channels, begin, end, f, dres, sums + part * v.channels);
  });
  for (int64_t c = 0; c < v.channels; ++c) {
    GradSums total;
    for (int64_t part = 0; part < parts.count; ++part) {
      total.sum += sums[part * v.channels + c].sum;
      total.dot += sums[part * v.channels + c].dot;
    }
    s.set(c, finish(c, total.sum, total.dot));
  }
  parts.each([&](int64_t, int64_t begin, int64_t end) {
    pixel_gradient(mask, dy, x, y, v.channels, begin, end, f, s, dx);
  });
}

template <class T, class W>
void batch_norm(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& fixed_mean, const Tensor& fixed_var, Tensor& running_mean,
                Tensor& running_var, Tensor& y, Tensor& mean, Tensor& scale,
                const backend::BatchNormParams& params) {
  forward<T, W>(context, x, weight, bias, fixed_mean, fixed_var, {}, running_mean, running_var, y,
                mean, scale, params, false);
}

template <class T, class W>
void batch_norm_relu(const Context& context, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, const Tensor& fixed_mean, const Tensor& fixed_var,
                     const Tensor& residual, Tensor& running_mean, Tensor& running_var, Tensor& y,
                     Tensor& mean, Tensor& scale, const backend::BatchNormParams& params) {
  forward<T, W>(context, x, weight, bias, fixed_mean, fixed_var, residual, running_mean,
                running_var, y, mean, scale, params, true);
}

template <class T, class W>
void batch_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias, bool training) {
  Tensor none;
  backward<T, W>(context, dy, x, weight, {}, mean, scale, {}, dx, dweight, dbias, none, training,
                 false);
}

template <class T, class W>
void batch_norm_relu_grad(const Context& context, const Tensor& dy, const Tensor& x,
                          const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& scale, const Tensor& y, Tensor& dx, Tensor& dweight,
                          Tensor& dbias, Tensor& dresidual, bool training) {
  backward<T, W>(context, dy, x, weight, bias, mean, scale, y, dx, dweight, dbias, dresidual,
                 training, true);
}

template <class T, class W>
void batch_norm_again(const Context& context, const Tensor& tx, const Tensor& weight,
                      const Tensor& bias, const Tensor& tmean, const Tensor& tscale,
                      const Tensor& residual, Tensor& ty, bool relu) {
  const T *w = in<T>(weight), *b = in<T>(bias), *mean = in<T>(tmean), *scale = in<T>(tscale);
  const W *x = in<W>(tx), *add = in<W>(residual);
  W* y = out<W>(ty);
  const Layout v(tx);
  const auto affine = [&](int64_t c) {
    return Affine<T>{mean[c], w ? scale[c] * w[c] : scale[c], b ? b[c] : T(0)};
  };
  if (!v.by_pixels) {
    v.each_channel([&](int64_t c) {
      v.runs(c, std::tuple(x, add, y), [&](int64_t at) {
        normalise_run(x + at, v.size, affine(c), add ? add + at : nullptr, relu, y + at);
      });
    });
    return;
  }
  const PixelParts parts(v);
  const Workspace workspace = context.workspace(parts.bytes<Affine<T>>(1));
  Columns<T> f(workspace.as<void>(), v.channels);
  for (int64_t c = 0; c < v.channels; ++c) f.set(c, affine(c));
  parts.each([&](int64_t, int64_t begin, int64_t end) {
    normalise_pixels(x, v.channels, begin, end, f, add, relu, y);
  });
}

void register_batch_norm() {
  register_floats_narrow<&batch_norm<float, float>, &batch_norm<double, double>,
                         &batch_norm<float, Half>, &batch_norm<float, BFloat16>, Outputs::updated,
                         0, 7>("batch_norm");
  register_floats_narrow<&batch_norm_relu<float, float>, &batch_norm_relu<double, double>,
                         &batch_norm_relu<float, Half>, &batch_norm_relu<float, BFloat16>,
                         Outputs::updated, 0, 5, 8>("batch_norm_relu");
  register_floats_narrow<&batch_norm_grad<float, float>, &batch_norm_grad<double, double>,
                         &batch_norm_grad<float, Half>, &batch_norm_grad<float, BFloat16>,
                         Outputs::written, 0, 1, 5>("batch_norm_grad");
  register_floats_narrow<&batch_norm_again<float, float>, &batch_norm_again<double, double>,
                         &batch_norm_again<float, Half>, &batch_norm_again<float, BFloat16>,
                         Outputs::written, 0, 5, 6>("batch_norm_again");
  register_floats_narrow<&batch_norm_relu_grad<float, float>, &batch_norm_relu_grad<double, double>,
                         &batch_norm_relu_grad<float, Half>, &batch_norm_relu_grad<float, BFloat16>,
                         Outputs::written, 0, 1, 6, 7, 10>("batch_norm_relu_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_batch_norm);
#endif
