// cross_entropy and nll_loss on the CPU: one pass over the rows each way.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/reduce/softmax-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/class_loss.h"
#include "core/check.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ClassLoss;
using backend::LossShape;

constexpr int64_t kRowGrain = 8192;  // elements per thread at least

/// Typed pointers of the operands.
template <class T>
struct Rows {
  const T* x;
  const int64_t* label;
  const T* weight;  // may be null
  int64_t n, classes;

  Rows(const Tensor& tx, const Tensor& target, const Tensor& tweight)
      : x(static_cast<const T*>(tx.raw())),
        label(static_cast<const int64_t*>(target.raw())),
        weight(tweight.defined() ? static_cast<const T*>(tweight.raw()) : nullptr),
        n(tx.shape()[0]),
        classes(tx.shape()[1]) {}

  T factor(int64_t row) const { return weight ? weight[label[row]] : T(1); }
  double total_weight() const {
    if (!weight) return static_cast<double>(classes);
    double total = 0;
    for (int64_t k = 0; k < classes; ++k) total += weight[k];
    return total;
  }
  int64_t grain() const { return std::max<int64_t>(1, kRowGrain / std::max<int64_t>(classes, 1)); }
};

/// Throws for a label that is no class; before any thread starts.
template <class T>
void check_labels(const char* op, const Rows<T>& r, int64_t ignore_index) {
  for (int64_t i = 0; i < r.n; ++i)
    BRIM_CHECK(
        (r.label[i] >= 0 && r.label[i] < r.classes) || r.label[i] == ignore_index, IndexError,
        "[{}] label {} at position {} is out of range for {} classes; labels are 0 to {}, or "
        "ignore_index {}",
        op, r.label[i], i, r.classes, r.classes - 1, ignore_index);
}

/// What a mean divides by: the weights of all rows that are not ignored; 1 for the other shapes.
template <class T>
double weight_of(const Rows<T>& r, const ClassLoss& options) {
  if (options.shape != LossShape::mean) return 1;
  double weight = 0;
  for (int64_t i = 0; i < r.n; ++i)
    if (r.label[i] != options.ignore_index) weight += r.factor(i);
  return weight;
}

/// Runs `loss_of(row)` (0 for ignored rows) and reduces: always in row order, in f64.
template <class T, class F>
void reduce_rows(const Context& context, const Rows<T>& r, Tensor& loss, T* divisor,
                 const ClassLoss& options, const F& loss_of) {
  const auto all_rows = [&](T* out) {
    parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin)
        out[begin] = r.label[begin] == options.ignore_index ? T(0) : loss_of(begin);
    });
  };
  *divisor = static_cast<T>(weight_of(r, options));
  T* y = static_cast<T*>(loss.raw());
  if (options.shape == LossShape::single) return all_rows(y);
  const Workspace space = context.workspace(static_cast<size_t>(r.n + 1) * sizeof(T));
  T* losses = space.as<T>();
  all_rows(losses);
  double total = 0;
  for (int64_t i = 0; i < r.n; ++i) total += losses[i];
  *y = static_cast<T>(total / weight_of(r, options));
}

/// The loss of row i, whose largest logit is m and whose sum of exponentials is e^s. smooth: the
/// share of each class in the target.
template <class T>
T row_loss(const Rows<T>& r, int64_t i, T m, T s, const ClassLoss& options, double smooth,
           double total_weight) {
  const T* row = r.x + i * r.classes;
  // (m - x) + s and not (m + s) - x: exact when all logits are large.
  const T single = r.factor(i) * ((m - row[r.label[i]]) + s);
  if (smooth == 0) return single;
  double spread = total_weight * static_cast<double>(s);
  for (int64_t k = 0; k < r.classes; ++k)
    spread += static_cast<double>(r.weight ? r.weight[k] : T(1)) * static_cast<double>(m - row[k]);
  return static_cast<T>((1 - options.smoothing) * static_cast<double>(single) + smooth * spread);
}

template <class T>
void cross_entropy(const Context& context, const Tensor& x, const Tensor& target,
                   const Tensor& weight, Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  check_labels("cross_entropy", r, options.ignore_index);
  T* largest = static_cast<T*>(stats.raw());
  T* log_sum = largest + r.n;
  std::fill_n(largest, 2 * r.n, T(0));  // rows that are ignored have none
  const double smooth = options.smoothing / static_cast<double>(std::max<int64_t>(r.classes, 1));
  const double total_weight = smooth > 0 ? r.total_weight() : 0;
  reduce_rows(context, r, loss, log_sum + r.n, options, [&](int64_t i) {
    const T* row = r.x + i * r.classes;
    const T m = row_max(row, r.classes);
    const T s = std::log(row_sum_exp<T>(row, r.classes, m, nullptr));
    largest[i] = m;
    log_sum[i] = s;
    return row_loss(r, i, m, s, options, smooth, total_weight);
  });
}

/// dx = g (a softmax(x) - b), b: the smoothed and weighted target, a: its sum.
template <class T>
void cross_entropy_grad(const Context&, const Tensor& tdy, const Tensor& x, const Tensor& target,
                        const Tensor& weight, const Tensor& stats, Tensor& tdx,
                        const ClassLoss& options) {
  const hn::ScalableTag<T> d;
  const Rows<T> r(x, target, weight);
  const T* dy = static_cast<const T*>(tdy.raw());
  const T* largest = static_cast<const T*>(stats.raw());
  const T* log_sum = largest + r.n;
  const T divisor = log_sum[r.n];
  T* dx = static_cast<T*>(tdx.raw());
  const T smooth = static_cast<T>(options.smoothing / static_cast<double>(r.classes));
  const T hard = static_cast<T>(1 - options.smoothing);
  const T spread = options.smoothing > 0 ? smooth * static_cast<T>(r.total_weight()) : T(0);
  const bool single = options.shape == LossShape::single;
  parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = dx + i * r.classes;
      if (r.label[i] == options.ignore_index) {
        std::fill_n(out, r.classes, T(0));
        continue;
      }
      const T g = (single ? dy[i] : dy[0]) / divisor, w = hard * r.factor(i);
      const auto m = hn::Set(d, largest[i]), s = hn::Set(d, log_sum[i]);
      const auto scale = hn::Set(d, g * (w + spread));
      each_vector<T>(r.x + i * r.classes, r.classes, 0, [&](auto v, int64_t at, int64_t count) {
        const auto p = exp_of(d, hn::Sub(hn::Sub(v, m), s));
        store_part(hn::Mul(scale, p), out + at, count);
      });
      if (smooth > 0)
        for (int64_t k = 0; k < r.classes; ++k)
          out[k] -= g * smooth * (r.weight ? r.weight[k] : T(1));
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
  reduce_rows(context, r, loss, &divisor, options, [&](int64_t i) {
    const T* row = r.x + i * r.classes;
    T* out = dx + i * r.classes;
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
    return row_loss(r, i, m, std::log(sum), options, smooth, total_weight);
  });
}

template <class T>
void nll_loss(const Context& context, const Tensor& x, const Tensor& target, const Tensor& weight,
              Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  check_labels("nll_loss", r, options.ignore_index);
  reduce_rows(context, r, loss, static_cast<T*>(stats.raw()), options,
              [&](int64_t i) { return -r.factor(i) * r.x[i * r.classes + r.label[i]]; });
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
  for (int64_t i = 0; i < r.n; ++i)
    if (r.label[i] != options.ignore_index)
      dx[i * r.classes + r.label[i]] = -r.factor(i) * (single ? dy[i] : dy[0]) / divisor;
}

void register_loss() {
  register_floats<&cross_entropy<float>, &cross_entropy<double>>("cross_entropy");
  register_floats<&cross_entropy_grad<float>, &cross_entropy_grad<double>>("cross_entropy_grad");
  register_floats<&softmax_cross_entropy<float>, &softmax_cross_entropy<double>>(
      "softmax_cross_entropy");
  register_floats<&nll_loss<float>, &nll_loss<double>>("nll_loss");
  register_floats<&nll_loss_grad<float>, &nll_loss_grad<double>>("nll_loss_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_loss);
#endif
