// layer_norm on the CPU. Statistics are gathered in f64 blocks in a fixed order, so
// the number of threads does not change them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/narrow_through_f32.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/reduce/moments-inl.h"
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
/// Of 16 bits, in the registers of f32.
template <class W>
void normalise_narrow_row(const W* x, const float* w, const float* b, W* y, float mean, float scale,
                          int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean), s = hn::Set(d, scale);
  const auto vector = [&](int64_t i) HWY_ATTR {
    const auto unit = hn::Mul(hn::Sub(load(d, x + i), m), s);
    return hn::MulAdd(unit, w ? hn::LoadU(d, w + i) : hn::Set(d, 1),
                      b ? hn::LoadU(d, b + i) : hn::Zero(d));
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) store_two(d, vector(i), vector(i + lanes), y + i);
  for (; i < n; ++i)
    y[i] = W(mul_add((static_cast<float>(x[i]) - mean) * scale, w ? w[i] : 1.0f, b ? b[i] : 0.0f));
}
#endif

/// y may be x. Of numbers stored as W.
template <class T, class W>
void layer_norm_row(const W* x, const T* w, const T* b, W* y, T& mean, T& scale, int64_t n,
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

/// As a link of chains.
template <class T>
void layer_norm_link(void* const* operands, int64_t n, const formula::Params& params) {
  const auto number = [&](int i) { return static_cast<T*>(operands[i]); };
  layer_norm_row<T, T>(number(0), number(1), number(2), number(3), *number(4), *number(5), n,
                       params.a);
}

/// Some rows of dy, x and dx at a time: where they are, or of 16 bits their f32 copies in the
/// cache.
template <class T, class W>
class GradRows {
 public:
  static constexpr bool kCopies = !std::is_same_v<T, W>;
  static int64_t count(int64_t n) { return kCopies ? std::clamp<int64_t>(kRun / n, 1, kRun) : 1; }
  /// Numbers that the copies take.
  static int64_t scratch(int64_t n) { return kCopies ? 3 * count(n) * n : 0; }

  GradRows(const W* dy, const W* x, W* dx, int64_t numbers, T* scratch)
      : to_(dx), numbers_(numbers) {
    if constexpr (kCopies) {
      up = scratch;
      from = scratch + numbers;
      to = scratch + 2 * numbers;
      convert_run(dy, scratch, numbers);
      convert_run(x, scratch + numbers, numbers);
    } else {
      up = dy;
      from = x;
      to = dx;
    }
  }
  void finish() const {
    if constexpr (kCopies) convert_run(to, to_, numbers_);
  }

  const T *up, *from;
  T* to;

 private:
  W* to_;
  int64_t numbers_;
};

/// dx may be the residual. Of activations stored as W.
template <class T, class W>
void layer_norm_gradients(const Context& context, const Tensor& tdy, const Tensor& tx,
                          const Tensor& weight, const Tensor& tmean, const Tensor& tscale,
                          const Tensor& tresidual, Tensor& tdx, Tensor& dweight, Tensor& dbias) {
  using Rows = GradRows<T, W>;
  const int64_t rows = tmean.numel(), n = dweight.numel();
  const T* residual = in<T>(tresidual);
  const W *dy = in<W>(tdy), *x = in<W>(tx);
  const T *w = in<T>(weight), *mean = in<T>(tmean), *scale = in<T>(tscale);
  W* dx = out<W>(tdx);
  T *dw = out<T>(dweight), *db = out<T>(dbias);
  // Parts of rows, their number fixed by the shape, each with column sums of its own.
  const int64_t parts = std::clamp<int64_t>(rows / 32, 1, 16);
  const int64_t at_once = n > 0 ? Rows::count(n) : 1, numbers = n > 0 ? n + Rows::scratch(n) : 0;
  const Workspace space =
      context.workspace(static_cast<size_t>(2 * parts * n + 1) * sizeof(double) +
                        static_cast<size_t>(parts * numbers) * sizeof(T));
  double* sums = space.as<double>();
  T* scratch = reinterpret_cast<T*>(sums + 2 * parts * n + 1);
  const int64_t grain =
      std::max<int64_t>(1, kElementwiseGrain * parts / std::max<int64_t>(rows * n, 1));
  // Row r of the tensors.
  const auto row_gradient = [&](int64_t r, const T* up, const T* from, T* to, T* g, double* sw,
                                double* sb) {
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
  };
  parallel_for(parts, grain, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      double *sw = sums + 2 * part * n, *sb = sw + n;
      T* g = scratch + part * numbers;
      std::fill_n(sw, 2 * n, 0.0);
      const int64_t last = rows * (part + 1) / parts;
      for (int64_t first = rows * part / parts; first < last; first += at_once) {
        const int64_t count = std::min(at_once, last - first), at = first * n;
        const Rows block(dy + at, x + at, dx + at, count * n, g + n);
        for (int64_t k = 0; k < count; ++k)
          row_gradient(first + k, block.up + k * n, block.from + k * n, block.to + k * n, g, sw,
                       sb);
        block.finish();
      }
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double a = 0, b = 0;
    for (int64_t part = 0; part < parts; ++part) {
      a += sums[2 * part * n + i];
      b += sums[(2 * part + 1) * n + i];
    }
    dw[i] = static_cast<T>(a);
    db[i] = static_cast<T>(b);
  }
}

template <class T>
void layer_norm_grad_add(const Context& context, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& mean, const Tensor& scale,
                         const Tensor& residual, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  layer_norm_gradients<T, T>(context, dy, x, weight, mean, scale, residual, dx, dweight, dbias);
}

template <class T, class W>
void layer_norm_grad(const Context& context, const Tensor& dy, const Tensor& x,
                     const Tensor& weight, const Tensor& mean, const Tensor& scale, Tensor& dx,
                     Tensor& dweight, Tensor& dbias) {
  layer_norm_gradients<T, W>(context, dy, x, weight, mean, scale, Tensor(), dx, dweight, dbias);
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
  register_floats_narrow<&layer_norm_grad<float, float>, &layer_norm_grad<double, double>,
                         &layer_norm_grad<float, Half>, &layer_norm_grad<float, BFloat16>,
                         Outputs::written, 0, 1, 5>("layer_norm_grad");
  backend::for_each_type(formula::List<float, double>{}, []<class T>(std::type_identity<T>) {
    backend::register_row_link("layer_norm", dtype_of<T>, &layer_norm_link<T>);
    // Not in 16 bits: the gradient would not be rounded before the addition, as it is apart.
    backend::register_kernel("layer_norm_grad_add", DeviceKind::cpu, dtype_of<T>,
                             &layer_norm_grad_add<T>);
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_layer_norm);
#endif
