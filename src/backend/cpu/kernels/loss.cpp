// cross_entropy and nll_loss on the CPU: one pass over the rows each way. Cross entropy over planes
// is in loss_planes.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/reduce/class_loss-inl.h"
#include "backend/cpu/reduce/softmax-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// The largest logit of each row that is not ignored and the logarithm of its sum of exponentials;
/// 0 of the others.
template <class T>
void row_statistics(const Rows<T>& r, int64_t ignore_index, T* largest, T* log_sum) {
  parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
    HWY_ALIGN T tile[kShortRow * kColumns], most[kColumns], sum[kColumns] = {};
    for (int64_t i = begin; i < end;) {
      const T* const row = r.x + i * r.classes;
      const int64_t count = r.classes <= kShortRow ? std::min(kColumns, end - i) : 1;
      if (r.classes <= kShortRow) {
        to_columns(row, r.classes, count, tile);
        columns_sum_exp<T>(tile, r.classes, kColumns, count, most, sum, nullptr);
      } else if (r.label[i] != ignore_index) {
        most[0] = row_max(row, r.classes);
        sum[0] = row_sum_exp<T>(row, r.classes, most[0], nullptr);
      }
      log_columns(sum, count);
      for (int64_t c = 0; c < count; ++c, ++i) {
        const bool ignored = r.label[i] == ignore_index;
        largest[i] = ignored ? T(0) : most[c];
        log_sum[i] = ignored ? T(0) : sum[c];
      }
    }
  });
}

template <class T>
void cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                   const Tensor& weight, Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  check_labels("cross_entropy", r, options.ignore_index);
  T* largest = static_cast<T*>(stats.raw());
  T* log_sum = largest + r.n;
  row_statistics(r, options.ignore_index, largest, log_sum);
  reduce_cross_entropy(context, r, largest, log_sum, loss, options);
}

template <class T>
void cross_entropy_grad(const Context&, const Tensor& tdy, const Tensor& x, const Tensor& target,
                        const Tensor& weight, const Tensor& stats, Tensor& tdx,
                        const ClassLoss& options) {
  const hn::ScalableTag<T> d;
  const Rows<T> r(x, target, weight);
  const CrossEntropyGrad<T> grad(r, tdy, stats, options);
  T* dx = static_cast<T*>(tdx.raw());
  parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = dx + i * r.classes;
      if (r.label[i] == options.ignore_index) {
        std::fill_n(out, r.classes, T(0));
        continue;
      }
      const T g = grad.incoming(i), w = grad.hard * r.factor(i);
      const auto m = hn::Set(d, grad.largest[i]), s = hn::Set(d, grad.log_sum[i]);
      const auto scale = hn::Set(d, g * (w + grad.spread));
      each_vector<T>(r.x + i * r.classes, r.classes, 0, [&](auto v, int64_t at, int64_t count) {
        const auto p = exp_below_0(d, hn::Sub(hn::Sub(v, m), s));
        store_part(hn::Mul(scale, p), out + at, count);
      });
      if (grad.smooth > 0)
        for (int64_t k = 0; k < r.classes; ++k)
          out[k] -= g * grad.smooth * (r.weight ? r.weight[k] : T(1));
      out[r.label[i]] -= g * w;
    }
  });
}

/// cross_entropy and its gradient for an incoming gradient of 1: exponentials are taken once. The
/// gradients are not those of cross_entropy_grad to the last bit: exp(v) / s stands for
/// exp(v - log s).
template <class T>
void softmax_cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                           const Tensor& weight, Tensor& loss, Tensor& tdx,
                           const ClassLoss& options) {
  const hn::ScalableTag<T> d;
  const Rows<T> r(x, target, weight);
  check_labels("cross_entropy", r, options.ignore_index);
  T* dx = static_cast<T*>(tdx.raw());
  const double smooth = options.smoothing / static_cast<double>(std::max<int64_t>(r.classes, 1));
  const double total_weight = smooth > 0 ? r.total_weight() : 0;
  const T g = T(1) / static_cast<T>(weight_of(r, options));
  const T even = g * static_cast<T>(smooth), hard = static_cast<T>(1 - options.smoothing);
  for (int64_t i = 0; i < r.n; ++i)
    if (r.label[i] == options.ignore_index) std::fill_n(dx + i * r.classes, r.classes, T(0));
  T divisor;
  reduce_rows(context, r, loss, &divisor, options, [&](int64_t i, int64_t place) {
    const T* row = r.x + place;
    T* out = dx + place;
    const T m = row_max(row, r.classes);
    const T sum = row_sum_exp<T>(row, r.classes, m, out);
    const T w = hard * r.factor(i);
    const auto scale = hn::Set(d, g * (w + static_cast<T>(smooth * total_weight)) / sum);
    each_vector<T>(out, r.classes, 0, [&](auto v, int64_t at, int64_t count) {
      store_part(hn::Mul(scale, v), out + at, count);
    });
    if (smooth > 0)
      for (int64_t k = 0; k < r.classes; ++k) out[k] -= even * (r.weight ? r.weight[k] : T(1));
    out[r.label[i]] -= g * w;
    return row_loss(r, i, row, m, std::log(sum), options, smooth, total_weight);
  });
}

template <class T>
void nll_loss(const Context& context, const Tensor& x, const Tensor& target, const Tensor& weight,
              Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  check_labels("nll_loss", r, options.ignore_index);
  reduce_rows(
      context, r, loss, static_cast<T*>(stats.raw()), options,
      [&](int64_t i, int64_t place) { return -r.factor(i) * r.x[place + r.label[i] * r.size]; });
}

template <class T>
void nll_loss_grad(const Context&, const Tensor& tdy, const Tensor& x, const Tensor& target,
                   const Tensor& weight, const Tensor& stats, Tensor& tdx,
                   const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  const T* dy = static_cast<const T*>(tdy.raw());
  const T divisor = *static_cast<const T*>(stats.raw());
  const bool single = options.shape == LossShape::single;
  T* dx = static_cast<T*>(tdx.raw());
  std::fill_n(dx, r.n * r.classes, T(0));
  r.each(0, r.n, [&](int64_t i, int64_t place) {
    if (r.label[i] != options.ignore_index)
      dx[place + r.label[i] * r.size] = -r.factor(i) * (single ? dy[i] : dy[0]) / divisor;
  });
}

void register_loss() {
  register_floats<&cross_entropy<float>, &cross_entropy<double>>("cross_entropy");
  register_floats<&cross_entropy_grad<float>, &cross_entropy_grad<double>>("cross_entropy_grad");
  register_floats<&softmax_cross_entropy<float>, &softmax_cross_entropy<double>>(
      "softmax_cross_entropy");
  for (const char* name : {"nll_loss", "nll_loss_planes"})
    register_floats<&nll_loss<float>, &nll_loss<double>>(name);
  for (const char* name : {"nll_loss_grad", "nll_loss_planes_grad"})
    register_floats<&nll_loss_grad<float>, &nll_loss_grad<double>>(name);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_loss);
#endif
