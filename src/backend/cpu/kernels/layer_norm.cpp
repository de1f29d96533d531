// layer_norm on the CPU. Statistics are gathered in f64 blocks in a fixed order, so
// the number of threads does not change them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/elementwise/narrow_through_f32.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/reduce/gradient_parts.h"
#include "backend/cpu/reduce/layer_norm_narrow-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/fused/chain.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Sums of dy and of dy (x - mean) along a row.
template <class T>
void grad_sums(const T* dy, const T* x, int64_t n, T mean, double& sum, double& dot) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean);
  int64_t i = 0;
  while (i + lanes <= n) {
    const int64_t end = std::min(n, i + kRun);
    auto s = hn::Zero(d), p = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) {
      const auto g = hn::LoadU(d, dy + i);
      s = hn::Add(s, g);
      p = hn::MulAdd(g, hn::Sub(hn::LoadU(d, x + i), m), p);
    }
    sum += hn::GetLane(hn::SumOfLanes(d, s));
    dot += hn::GetLane(hn::SumOfLanes(d, p));
  }
  T s = 0, p = 0;
  for (; i < n; ++i) {
    s += dy[i];
    p += dy[i] * (x[i] - mean);
  }
  sum += s;
  dot += p;
}

/// y = (x - mean) scale w + b of a row; w and b may be null.
template <class T>
void normalise_row(const T* x, const T* w, const T* b, T* y, T mean, T scale, int64_t n) {
  if (w && b)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * w[i] + b[i];
  else
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * scale * (w ? w[i] : T(1)) + (b ? b[i] : T(0));
}

#if HWY_TARGET != HWY_SCALAR
/// Of 16 bits, in the registers of f32; w and b are stored as P.
template <class W, class P>
void normalise_narrow_row(const W* x, const P* w, const P* b, W* y, float mean, float scale,
                          int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean), s = hn::Set(d, scale);
  const auto vector = [&](const W* from, const P* factor, const P* shift, int64_t i) HWY_ATTR {
    const auto unit = hn::Mul(hn::Sub(load(d, from + i), m), s);
    return hn::MulAdd(unit, factor ? load(d, factor + i) : hn::Set(d, 1),
                      shift ? load(d, shift + i) : hn::Zero(d));
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    store_two(d, vector(x, w, b, i), vector(x, w, b, i + lanes), y + i);
  if (i == n) return;
  constexpr int64_t kRest = 2 * HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN W rest[kRest] = {}, result[kRest];
  HWY_ALIGN P factors[kRest] = {}, shifts[kRest] = {};
  std::copy_n(x + i, n - i, rest);
  if (w) std::copy_n(w + i, n - i, factors);
  if (b) std::copy_n(b + i, n - i, shifts);
  const P *factor = w ? factors : nullptr, *shift = b ? shifts : nullptr;
  store_two(d, vector(rest, factor, shift, 0), vector(rest, factor, shift, lanes), result);
  std::copy_n(result, n - i, y + i);
}
#endif

/// y may be x. Of numbers stored as W, w and b as P.
template <class T, class W, class P>
void layer_norm_row(const W* x, const P* w, const P* b, W* y, T& mean, T& scale, int64_t n,
                    double eps) {
  Moments moments;
  run_moments(x, n, moments);
  mean = static_cast<T>(moments.mean);
  scale = static_cast<T>(1 / std::sqrt(moments.var() + eps));
  if constexpr (std::is_same_v<T, W>)
    normalise_row(x, w, b, y, mean, scale, n);
  else
    normalise_narrow_row(x, w, b, y, mean, scale, n);
}

template <class T, class W>
void layer_norm_rows(const Tensor& tx, const Tensor& weight, const Tensor& bias, Tensor& ty,
                     Tensor& tmean, Tensor& tscale, double eps) {
  const int64_t rows = tmean.numel(), n = rows > 0 ? tx.numel() / rows : 0;
  const W* x = in<W>(tx);
  const T *w = in<T>(weight), *b = in<T>(bias);
  W* y = out<W>(ty);
  T *mean = out<T>(tmean), *scale = out<T>(tscale);
  parallel_for(rows, std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 if constexpr (!std::is_same_v<T, W>)
                   if (0 < n && n <= kShortNormRow)
                     return narrow_short_rows(x, w, b, n, begin, end, eps, y, mean, scale);
                 for (; begin < end; ++begin)
                   layer_norm_row(x + begin * n, w, b, y + begin * n, mean[begin], scale[begin], n,
                                  eps);
               });
}

template <class T>
void layer_norm(const Context&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& mean, Tensor& scale, double eps) {
  layer_norm_rows<T, T>(x, weight, bias, y, mean, scale, eps);
}

/// As a link of chains. T: of mean and scale.
template <class T, class W>
void layer_norm_link(void* const* operands, int64_t n, const formula::Params& params) {
  const auto row = [&](int i) { return static_cast<W*>(operands[i]); };
  T &mean = *static_cast<T*>(operands[4]), &scale = *static_cast<T*>(operands[5]);
  if constexpr (!std::is_same_v<T, W>)
    if (n <= kShortNormRow)
      return narrow_short_rows<W, W>(row(0), row(1), row(2), n, 0, 1, params.a, row(3), &mean,
                                     &scale);
  layer_norm_row<T, W, W>(row(0), row(1), row(2), row(3), mean, scale, n, params.a);
}

/// dx may be the residual.
template <class T>
void layer_norm_gradients(const Context& context, const Tensor& tdy, const Tensor& tx,
                          const Tensor& weight, const Tensor& tmean, const Tensor& tscale,
                          const Tensor& tresidual, Tensor& tdx, Tensor& dweight, Tensor& dbias) {
  const GradientParts parts(tmean.numel(), dweight.numel(), 2);
  const int64_t n = parts.n;
  const T *dy = in<T>(tdy), *x = in<T>(tx), *residual = in<T>(tresidual);
  const T *w = in<T>(weight), *mean = in<T>(tmean), *scale = in<T>(tscale);
  T* dx = out<T>(tdx);
  const Workspace space = context.workspace(
      parts.sum_bytes() + (w ? static_cast<size_t>(parts.count * n) * sizeof(T) : 0));
  double* sums = space.as<double>();
  T* scratch = reinterpret_cast<T*>(sums + 2 * parts.count * n + 1);
  parts.each([&](int64_t part, int64_t begin, int64_t end) {
    double *sw = sums + 2 * part * n, *sb = sw + n;
    T* g = scratch + part * n;
    std::fill_n(sw, 2 * n, 0.0);
    for (int64_t r = begin; r < end; ++r) {
      const T *up = dy + r * n, *from = x + r * n;
      T* to = dx + r * n;
      const T m = mean[r], s = scale[r];
      for (int64_t i = 0; i < n; ++i) {
        sw[i] += static_cast<double>(up[i] * ((from[i] - m) * s));
        sb[i] += static_cast<double>(up[i]);
      }
      const T* weighted = up;
      if (w) {
        for (int64_t i = 0; i < n; ++i) g[i] = up[i] * w[i];
        weighted = g;
      }
      double sum = 0, dot = 0;
      grad_sums(weighted, from, n, m, sum, dot);
      const double count = static_cast<double>(n), sd = static_cast<double>(s);
      const T shift = static_cast<T>(sd * sum / count);
      const T slope = static_cast<T>(sd * sd * sd * dot / count);
      if (const T* more = residual ? residual + r * n : nullptr)
        for (int64_t i = 0; i < n; ++i)
          to[i] = more[i] + (s * weighted[i] - slope * (from[i] - m) - shift);
      else
        for (int64_t i = 0; i < n; ++i) to[i] = s * weighted[i] - slope * (from[i] - m) - shift;
    }
  });
  parts.add_up(sums, out<T>(dweight), out<T>(dbias));
}

/// Of activations stored as W in 16 bits.
template <class W>
void layer_norm_grad_16_bits(const Context& context, const Tensor& dy, const Tensor& x,
                             const Tensor& weight, const Tensor& mean, const Tensor& scale,
                             Tensor& dx, Tensor& dweight, Tensor& dbias) {
  using Scratch = NarrowGradientScratch;
  const GradientParts parts(mean.numel(), dweight.numel(), 2);
  const int64_t n = parts.n, weights = n + Scratch::kPadding;
  const int64_t numbers = n > 0 ? Scratch::numbers(n) : 0;
  const Workspace space = context.workspace(
      parts.sum_bytes() + static_cast<size_t>(weights + parts.count * numbers) * sizeof(float));
  double* const sums = space.as<double>();
  float* const w = reinterpret_cast<float*>(sums + 2 * parts.count * n + 1);
  float* const scratch = w + weights;
  std::fill_n(w, weights, 1.0f);
  if (weight.defined()) std::copy_n(in<float>(weight), n, w);
  if (n > 0)
    parts.each([&](int64_t part, int64_t begin, int64_t end) {
      narrow_rows_gradient(in<W>(dy), in<W>(x), w, in<float>(mean), in<float>(scale), n, begin, end,
                           out<W>(dx), Scratch(scratch + part * numbers, n), sums + 2 * part * n);
    });
  parts.add_up(sums, out<float>(dweight), out<float>(dbias));
}

template <class T>
void layer_norm_grad_add(const Context& context, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& mean, const Tensor& scale,
                         const Tensor& residual, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  layer_norm_gradients<T>(context, dy, x, weight, mean, scale, residual, dx, dweight, dbias);
}

template <class T>
void layer_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias) {
  layer_norm_gradients<T>(context, dy, x, weight, mean, scale, Tensor(), dx, dweight, dbias);
}

template <class W, class Rest>
void layer_norm_16_bits(const Context& context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, Tensor& y, Tensor& mean, Tensor& scale, double eps) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kLoads<W>) {
    constexpr Outputs kOutputs = Outputs::written;
    WideArgument<const Tensor&> wide_weight(context, weight, kOutputs);
    WideArgument<const Tensor&> wide_bias(context, bias, kOutputs);
    return layer_norm_rows<float, W>(x, wide_weight.value(), wide_bias.value(), y, mean, scale,
                                     eps);
  }
#endif
  Rest::run(context, x, weight, bias, y, mean, scale, eps);
}

void register_layer_norm() {
  // x's axes before the normalized ones, which hold as many elements as there are statistics.
  constexpr auto kRows = [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                            const Tensor& mean, const Tensor&, double) {
    int axes = 0;
    for (int64_t rows = 1; axes < x.rank() && rows < mean.numel(); ++axes) rows *= x.shape()[axes];
    return axes;
  };
  using ByRows = RowsThroughF32<&layer_norm<float>, kRows, 0, 3, 4, 5>;
  backend::register_kernel("layer_norm", DeviceKind::cpu, DType::f32, &layer_norm<float>);
  backend::register_kernel("layer_norm", DeviceKind::cpu, DType::f64, &layer_norm<double>);
  backend::register_kernel("layer_norm", DeviceKind::cpu, DType::f16,
                           &layer_norm_16_bits<Half, ByRows>);
  backend::register_kernel("layer_norm", DeviceKind::cpu, DType::bf16,
                           &layer_norm_16_bits<BFloat16, ByRows>);
  register_floats_narrow<&layer_norm_grad<float>, &layer_norm_grad<double>,
                         &layer_norm_grad_16_bits<Half>, &layer_norm_grad_16_bits<BFloat16>,
                         Outputs::written, 0, 1, 5>("layer_norm_grad");
  backend::for_each_type(formula::List<float, double>{}, []<class T>(std::type_identity<T>) {
    backend::register_row_link("layer_norm", dtype_of<T>, &layer_norm_link<T, T>);
    // Not in 16 bits: the gradient would not be rounded before the addition, as it is apart.
    backend::register_kernel("layer_norm_grad_add", DeviceKind::cpu, dtype_of<T>,
                             &layer_norm_grad_add<T>);
  });
  backend::for_each_type(formula::List<Half, BFloat16>{}, []<class W>(std::type_identity<W>) {
    if constexpr (kInRegisters<W>)
      backend::register_row_link("layer_norm", dtype_of<W>, &layer_norm_link<float, W>);
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_layer_norm);
#endif
