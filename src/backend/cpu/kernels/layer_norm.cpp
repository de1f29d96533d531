// layer_norm on the CPU. Statistics are gathered in f64 blocks in a fixed order, so
// the number of threads does not change them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <hwy/cache_control.h>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/reduce/layer_norm-inl.h"
#include "backend/cpu/reduce/layer_norm_narrow-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/fused/chain.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

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

constexpr int64_t kCached = 1 << 20;  // elements that the caches hold

/// Fetches a row that is needed soon: three passes over the one before keep memory waiting else.
template <class W>
void fetch(const W* row, int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(W);
  for (int64_t i = 0; i < n; i += kLine) hwy::Prefetch(row + i);
}

template <class T, class W>
void layer_norm_rows(const Tensor& tx, const Tensor& weight, const Tensor& bias, Tensor& ty,
                     Tensor& tmean, Tensor& tscale, double eps) {
  const int64_t rows = tmean.numel(), n = rows > 0 ? tx.numel() / rows : 0;
  const W* x = in<W>(tx);
  const T *w = in<T>(weight), *b = in<T>(bias);
  W* y = out<W>(ty);
  T *mean = out<T>(tmean), *scale = out<T>(tscale);
  const bool fetches = tx.numel() > kCached;
  parallel_for(rows, std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 if (0 < n && n <= kShortRow) {
                   for (; begin < end; begin += kColumns)
                     layer_norm_short_rows(x + begin * n, w, b, n, std::min(kColumns, end - begin),
                                           eps, y + begin * n, mean + begin, scale + begin);
                   return;
                 }
                 if constexpr (!std::is_same_v<T, W>)
                   if (0 < n && n <= kShortNormRow)
                     return narrow_short_rows(x, w, b, n, begin, end, eps, y, mean, scale);
                 for (; begin < end; ++begin) {
                   if (fetches && begin + 1 < end) fetch(x + (begin + 1) * n, n);
                   layer_norm_row(x + begin * n, w, b, y + begin * n, mean[begin], scale[begin], n,
                                  eps);
                 }
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
  if (n <= kShortRow)
    return layer_norm_short_rows(row(0), row(1), row(2), n, 1, params.a, row(3), &mean, &scale);
  if constexpr (!std::is_same_v<T, W>)
    if (n <= kShortNormRow)
      return narrow_short_rows<W, W>(row(0), row(1), row(2), n, 0, 1, params.a, row(3), &mean,
                                     &scale);
  layer_norm_row<T, W, W>(row(0), row(1), row(2), row(3), mean, scale, n, params.a);
}

/// dx may be the residual.
template <class W>
void layer_norm_grad_add(const Context& context, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& mean, const Tensor& scale,
                         const Tensor& residual, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  using T = formula::Arithmetic<W>;
  const GradientParts parts(mean.numel(), dweight.numel(), 2);
  const LayerNormGradient<W, T> gradient{in<W>(dy),   in<W>(x),     in<W>(weight), in<W>(residual),
                                         in<T>(mean), in<T>(scale), out<W>(dx),    parts.n};
  sum_gradients<T>(context, parts, gradient, out<W>(dweight), out<W>(dbias));
}

template <class W>
void layer_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias) {
  layer_norm_grad_add<W>(context, dy, x, weight, mean, scale, Tensor(), dx, dweight, dbias);
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
  backend::for_each_type(formula::List<float, double>{}, []<class T>(std::type_identity<T>) {
    backend::register_row_link("layer_norm", dtype_of<T>, &layer_norm_link<T, T>);
    backend::register_kernel("layer_norm_grad", DeviceKind::cpu, dtype_of<T>, &layer_norm_grad<T>);
    // Not in 16 bits: the gradient would not be rounded before the addition, as it is apart.
    backend::register_kernel("layer_norm_grad_add", DeviceKind::cpu, dtype_of<T>,
                             &layer_norm_grad_add<T>);
  });
  backend::for_each_type(formula::List<Half, BFloat16>{}, []<class W>(std::type_identity<W>) {
    constexpr const char* kGradient = "layer_norm_grad";
    if constexpr (kInRegisters<W>) {
      backend::register_kernel(kGradient, DeviceKind::cpu, dtype_of<W>, &layer_norm_grad<W>);
      backend::register_row_link("layer_norm", dtype_of<W>, &layer_norm_link<float, W>);
    } else {
      backend::register_kernel(kGradient, DeviceKind::cpu, dtype_of<W>,
                               &ThroughF32<&layer_norm_grad<float>, Outputs::written>::run);
    }
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_layer_norm);
#endif
