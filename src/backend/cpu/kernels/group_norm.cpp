// group_norm on the CPU, by the loops of batch_norm: sums of channels, and of these those of
// groups, then a map of each channel. Sums are f64 sums of short blocks in a fixed order, so the
// number of threads does not change them.
#include "backend/options/norm_params.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/group_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <cmath>

#include "backend/cpu/elementwise/narrow_through_f32.h"
#include "backend/cpu/reduce/batch_norm_narrow-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::GroupNormParams;

/// x: (N, C, S), by pixels where it is not row-major; groups of `width` channels.
struct Groups {
  int64_t n, channels, size, count, width;
  bool by_pixels;
  int64_t parts;  // of an image's pixels; their number depends on the sizes only

  Groups(const Tensor& x, int64_t groups)
      : n(x.shape()[0]),
        channels(x.shape()[1]),
        size(n * channels > 0 ? x.numel() / (n * channels) : 0),
        count(groups),
        width(channels / groups),
        by_pixels(!x.is_contiguous()),
        parts(std::clamp<int64_t>(size * channels / kElementwiseGrain, 1, 64)) {}

  int64_t elements() const { return width * size; }
  /// body(group of all images, first channel of all images)
  template <class Body>
  void each_group(const Body& body) const {
    const int64_t grain =
        std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, elements()));
    parallel_for(n * count, grain, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) body(begin, begin * width);
    });
  }
  /// body(part of all images, image, first pixel, last pixel), pixels of all images
  template <class Body>
  void each_part(const Body& body) const {
    const int64_t grain =
        std::max<int64_t>(1, kElementwiseGrain * parts / std::max<int64_t>(1, channels * size));
    parallel_for(n * parts, grain, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) {
        const int64_t image = begin / parts, part = begin % parts;
        body(begin, image, image * size + size * part / parts,
             image * size + size * (part + 1) / parts);
      }
    });
  }
};

/// What is saved of a group, and what maps one of its channels.
template <class T>
struct GroupStatistics {
  const T *weight, *bias;
  T *mean, *scale;
  double eps;

  void save(int64_t group, const Moments& m) const {
    mean[group] = static_cast<T>(m.mean);
    scale[group] = static_cast<T>(1 / std::sqrt(m.var() + eps));
  }
  Affine<T> map(int64_t group, int64_t channel) const {
    const T s = scale[group];
    return {mean[group], weight ? s * weight[channel] : s, bias ? bias[channel] : T(0)};
  }
};

/// Of numbers stored as W.
template <class T, class W>
void group_norm_planes(const Groups& v, const GroupStatistics<T>& statistics, const W* x, W* y) {
  v.each_group([&](int64_t group, int64_t first) {
    Moments m;
    run_moments(x + first * v.size, v.elements(), m);
    statistics.save(group, m);
    for (int64_t c = first; c < first + v.width; ++c) {
      const Affine<T> map = statistics.map(group, c % v.channels);
      const int64_t at = c * v.size;
      normalise_run<W>(x + at, v.size, map, nullptr, false, y + at);
    }
  });
}

template <class T, class W>
void group_norm_pixels(const Context& context, const Groups& v,
                       const GroupStatistics<T>& statistics, const W* x, W* y) {
  const size_t sums = static_cast<size_t>(v.n * v.parts * v.channels) * sizeof(Moments);
  const size_t maps = static_cast<size_t>(v.n * v.channels) * sizeof(Affine<T>);
  const Workspace workspace = context.workspace(sums + maps);
  Moments* const moments = workspace.as<Moments>();
  T* const columns = reinterpret_cast<T*>(moments + v.n * v.parts * v.channels);
  const auto columns_of = [&](int64_t image) {
    return Columns<T>(columns + 3 * image * v.channels, v.channels);
  };
  v.each_part([&](int64_t part, int64_t, int64_t begin, int64_t end) {
    pixel_moments(x, v.channels, begin, end, moments + part * v.channels);
  });
  v.each_group([&](int64_t group, int64_t first) {
    const int64_t image = group / v.count;
    Moments m;
    for (int64_t part = 0; part < v.parts; ++part)
      for (int64_t c = first % v.channels; c < first % v.channels + v.width; ++c)
        m.merge(moments[(image * v.parts + part) * v.channels + c]);
    statistics.save(group, m);
    Columns<T> to = columns_of(image);
    for (int64_t c = first % v.channels; c < first % v.channels + v.width; ++c)
      to.set(c, statistics.map(group, c));
  });
  v.each_part([&](int64_t, int64_t image, int64_t begin, int64_t end) {
    normalise_pixels<W>(x, v.channels, begin, end, columns_of(image), nullptr, false, y);
  });
}

template <class T>
void group_norm(const Context& context, const Tensor& tx, const Tensor& weight, const Tensor& bias,
                Tensor& ty, Tensor& mean, Tensor& scale, const GroupNormParams& params) {
  const Groups v(tx, params.groups);
  const GroupStatistics<T> statistics{in<T>(weight), in<T>(bias), out<T>(mean), out<T>(scale),
                                      params.eps};
  if (v.by_pixels)
    group_norm_pixels(context, v, statistics, in<T>(tx), out<T>(ty));
  else
    group_norm_planes<T, T>(v, statistics, in<T>(tx), out<T>(ty));
}

template <class W>
void group_norm_16_bits(const Context& context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, Tensor& y, Tensor& mean, Tensor& scale,
                        const GroupNormParams& params) {
  constexpr Outputs kOutputs = Outputs::written;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kLoads<W>) {
    const Groups v(x, params.groups);
    WideArgument<const Tensor&> wide_weight(context, weight, kOutputs);
    WideArgument<const Tensor&> wide_bias(context, bias, kOutputs);
    const GroupStatistics<float> statistics{in<float>(wide_weight.value()),
                                            in<float>(wide_bias.value()), out<float>(mean),
                                            out<float>(scale), params.eps};
    if (v.by_pixels) return group_norm_pixels(context, v, statistics, in<W>(x), out<W>(y));
    return group_norm_planes<float, W>(v, statistics, in<W>(x), out<W>(y));
  }
#endif
  ThroughF32<&group_norm<float>, kOutputs>::run(context, x, weight, bias, y, mean, scale, params);
}

/// The gradient of a group's elements, by the sums of all channels of all images.
template <class T>
struct GroupGradient {
  const Groups& v;
  const T *weight, *mean, *scale;
  const GradSums* sums;

  /// dx = a dy - slope (x - mean) - shift for each of the group's channels: set(channel, that).
  template <class Set>
  void each_channel(int64_t group, int64_t first, const Set& set) const {
    const double s = scale[group], count = static_cast<double>(std::max<int64_t>(1, v.elements()));
    const auto factor = [&](int64_t c) {
      return weight ? static_cast<double>(weight[c % v.channels]) : 1.0;
    };
    double sum = 0, dot = 0;
    for (int64_t c = first; c < first + v.width; ++c) {
      sum += factor(c) * sums[c].sum;
      dot += factor(c) * sums[c].dot;
    }
    const T slope = static_cast<T>(s * s * s * dot / count),
            shift = static_cast<T>(s * sum / count);
    for (int64_t c = first; c < first + v.width; ++c)
      set(c, Slope<T>{mean[group], static_cast<T>(s * factor(c)), slope, shift});
  }
};

/// Of weights and biases, over all images.
template <class T>
void parameter_gradients(const Groups& v, const GradSums* sums, const T* scale, T* dweight,
                         T* dbias) {
  for (int64_t c = 0; c < v.channels; ++c) {
    double w = 0, b = 0;
    for (int64_t i = 0; i < v.n; ++i) {
      const GradSums& of = sums[i * v.channels + c];
      w += of.dot * static_cast<double>(scale[i * v.count + c / v.width]);
      b += of.sum;
    }
    dweight[c] = static_cast<T>(w);
    dbias[c] = static_cast<T>(b);
  }
}

/// Of activations stored as W.
template <class T, class W>
void group_norm_grad(const Context& context, const Tensor& tdy, const Tensor& tx,
                     const Tensor& weight, const Tensor& tmean, const Tensor& tscale, Tensor& tdx,
                     Tensor& dweight, Tensor& dbias, const GroupNormParams& params) {
  const T *mean = in<T>(tmean), *scale = in<T>(tscale);
  const W *dy = in<W>(tdy), *x = in<W>(tx);
  W* const dx = out<W>(tdx);
  const Groups v(tx, params.groups);
  const int64_t all = v.n * v.channels, parts = v.by_pixels ? v.parts : 0;
  const Workspace workspace =
      context.workspace(static_cast<size_t>((1 + parts) * all) * sizeof(GradSums) +
                        static_cast<size_t>(7 * all) * sizeof(T));
  GradSums* const sums = workspace.as<GradSums>();
  const GroupGradient<T> gradient{v, in<T>(weight), mean, scale, sums};
  if (!v.by_pixels) {
    v.each_group([&](int64_t group, int64_t first) {
      const Affine<T> f{mean[group], scale[group], T(0)};
      for (int64_t c = first; c < first + v.width; ++c) {
        sums[c] = {};
        run_sums<W>(Mask::none, dy + c * v.size, x + c * v.size, nullptr, v.size, f, nullptr,
                    sums[c].sum, sums[c].dot);
      }
      gradient.each_channel(group, first, [&](int64_t c, const Slope<T>& s) {
        run_gradient<W>(Mask::none, dy + c * v.size, x + c * v.size, nullptr, v.size, f, s,
                        dx + c * v.size);
      });
    });
    return parameter_gradients(v, sums, scale, out<T>(dweight), out<T>(dbias));
  }
  GradSums* const of_parts = sums + all;
  T* const numbers = reinterpret_cast<T*>(of_parts + parts * all);
  const auto maps_of = [&](int64_t image) {
    return Columns<T>(numbers + 7 * image * v.channels, v.channels);
  };
  v.each_group([&](int64_t group, int64_t first) {
    Columns<T> maps = maps_of(group / v.count);
    for (int64_t c = first; c < first + v.width; ++c)
      maps.set(c % v.channels, {mean[group], scale[group], T(0)});
  });
  v.each_part([&](int64_t part, int64_t image, int64_t begin, int64_t end) {
    pixel_sums<W>(Mask::none, dy, x, nullptr, v.channels, begin, end, maps_of(image), nullptr,
                  of_parts + part * v.channels);
  });
  v.each_group([&](int64_t group, int64_t first) {
    const int64_t image = group / v.count;
    for (int64_t c = first; c < first + v.width; ++c) {
      sums[c] = {};
      for (int64_t part = 0; part < parts; ++part) {
        const GradSums& of = of_parts[(image * parts + part) * v.channels + c % v.channels];
        sums[c].sum += of.sum;
        sums[c].dot += of.dot;
      }
    }
    SlopeColumns<T> slopes(maps_of(image).end(), v.channels);
    gradient.each_channel(group, first,
                          [&](int64_t c, const Slope<T>& s) { slopes.set(c % v.channels, s); });
  });
  v.each_part([&](int64_t, int64_t image, int64_t begin, int64_t end) {
    const Columns<T> maps = maps_of(image);
    pixel_gradient<W>(Mask::none, dy, x, nullptr, v.channels, begin, end, maps,
                      SlopeColumns<T>(maps.end(), v.channels), dx);
  });
  parameter_gradients(v, sums, scale, out<T>(dweight), out<T>(dbias));
}

void register_group_norm() {
  backend::register_kernel("group_norm", DeviceKind::cpu, DType::f32, &group_norm<float>);
  backend::register_kernel("group_norm", DeviceKind::cpu, DType::f64, &group_norm<double>);
  backend::register_kernel("group_norm", DeviceKind::cpu, DType::f16, &group_norm_16_bits<Half>);
  backend::register_kernel("group_norm", DeviceKind::cpu, DType::bf16,
                           &group_norm_16_bits<BFloat16>);
  register_floats_narrow<&group_norm_grad<float, float>, &group_norm_grad<double, double>,
                         &group_norm_grad<float, Half>, &group_norm_grad<float, BFloat16>,
                         Outputs::written, 0, 1, 5>("group_norm_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_group_norm);
#endif
