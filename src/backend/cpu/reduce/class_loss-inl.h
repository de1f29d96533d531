// What the kernels of cross_entropy and nll_loss share, compiled once per instruction set: their
// rows, and how losses of rows become one.
#include <algorithm>
#include <cstdint>

#if defined(BRIM_BACKEND_CPU_CLASS_LOSS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_CLASS_LOSS_INL_H
#undef BRIM_BACKEND_CPU_CLASS_LOSS_INL_H
#else
#define BRIM_BACKEND_CPU_CLASS_LOSS_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/runtime/parallel.h"
#include "backend/options/class_loss.h"
#include "core/check.h"
#include "core/context.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ClassLoss;
using backend::LossShape;

constexpr int64_t kRowGrain = 8192;  // elements per thread at least

/// Typed pointers of the operands. x: (N, C), or planes: (N', C, S), where N = N' S.
template <class T>
struct Rows {
  const T* x;
  const int64_t* label;
  const T* weight;  // may be null
  int64_t n, classes;
  int64_t size = 1;  // S: the elements of a row lie so far apart

  Rows(const Tensor& tx, const Tensor& target, const Tensor& tweight)
      : x(static_cast<const T*>(tx.raw())),
        label(static_cast<const int64_t*>(target.raw())),
        weight(tweight.defined() ? static_cast<const T*>(tweight.raw()) : nullptr),
        n(tx.shape()[0]),
        classes(tx.shape()[1]) {
    if (tx.rank() == 3) n *= size = tx.shape()[2];
  }

  /// Where row i begins.
  int64_t begin_of(int64_t i) const { return i / size * classes * size + i % size; }
  /// Calls body(i, where it begins) for the rows [i, end), without divisions for each.
  template <class Body>
  HWY_INLINE void each(int64_t i, int64_t end, const Body& body) const {
    if (i >= end) return;  // size may be 0
    int64_t place = begin_of(i), left = size - i % size;
    for (; i < end; ++i) {
      body(i, place);
      ++place;
      if (--left > 0) continue;
      place += (classes - 1) * size;
      left = size;
    }
  }
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
  const auto is_wrong = [&](int64_t label) {
    return ((label < 0) | (label >= r.classes)) & (label != ignore_index);
  };
  bool any = false;
  for (int64_t i = 0; i < r.n; ++i) any |= is_wrong(r.label[i]);
  if (!any) return;
  const int64_t at = std::find_if(r.label, r.label + r.n, is_wrong) - r.label;
  raise<IndexError>(
      "[{}] label {} at position {} is out of range for {} classes; labels are 0 to {}, or "
      "ignore_index {}",
      op, r.label[at], at, r.classes, r.classes - 1, ignore_index);
}

/// What a mean divides by: the weights of all rows that are not ignored; 1 for the other shapes.
template <class T>
double weight_of(const Rows<T>& r, const ClassLoss& options) {
  if (options.shape != LossShape::mean) return 1;
  if (!r.weight)
    return static_cast<double>(r.n - std::count(r.label, r.label + r.n, options.ignore_index));
  double weight = 0;
  for (int64_t i = 0; i < r.n; ++i)
    if (r.label[i] != options.ignore_index) weight += r.factor(i);
  return weight;
}

/// In f64, as four sums, which need not wait for each other.
template <class T>
double sum_of(const T* x, int64_t n) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) sums[k] += static_cast<double>(x[i + k]);
  for (; i < n; ++i) sums[0] += static_cast<double>(x[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Runs `loss_of(row, where it begins)` (0 for ignored rows) and reduces, in an order that depends
/// on the number of rows only.
template <class T, class F>
void reduce_rows(const Context& context, const Rows<T>& r, Tensor& loss, T* divisor,
                 const ClassLoss& options, const F& loss_of) {
  const auto all_rows = [&](T* out) {
    parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
      r.each(begin, end, [&](int64_t i, int64_t place) {
        out[i] = r.label[i] == options.ignore_index ? T(0) : loss_of(i, place);
      });
    });
  };
  const double weight = weight_of(r, options);
  *divisor = static_cast<T>(weight);
  T* y = static_cast<T*>(loss.raw());
  if (options.shape == LossShape::single) return all_rows(y);
  const Workspace space = context.workspace(static_cast<size_t>(r.n + 1) * sizeof(T));
  T* losses = space.as<T>();
  all_rows(losses);
  *y = static_cast<T>(sum_of(losses, r.n) / weight);
}

/// The loss of row i, whose largest logit is m and whose sum of exponentials is e^s. smooth: the
/// share of each class in the target.
template <class T>
T row_loss(const Rows<T>& r, int64_t i, const T* row, T m, T s, const ClassLoss& options,
           double smooth, double total_weight) {
  // (m - x) + s and not (m + s) - x: exact when all logits are large.
  const T single = r.factor(i) * ((m - row[r.label[i] * r.size]) + s);
  if (smooth == 0) return single;
  double spread = total_weight * static_cast<double>(s);
  for (int64_t k = 0; k < r.classes; ++k)
    spread += static_cast<double>(r.weight ? r.weight[k] : T(1)) *
              static_cast<double>(m - row[k * r.size]);
  return static_cast<T>((1 - options.smoothing) * static_cast<double>(single) + smooth * spread);
}

/// cross_entropy's losses from the statistics of all rows: log_sum holds n logarithms, and behind
/// them what a mean is divided by, which is written here.
template <class T>
void reduce_cross_entropy(const Context& context, const Rows<T>& r, const T* largest, T* log_sum,
                          Tensor& loss, const ClassLoss& options) {
  const double smooth = options.smoothing / static_cast<double>(std::max<int64_t>(r.classes, 1));
  const double total_weight = smooth > 0 ? r.total_weight() : 0;
  reduce_rows(context, r, loss, log_sum + r.n, options, [&](int64_t i, int64_t place) {
    return row_loss(r, i, r.x + place, largest[i], log_sum[i], options, smooth, total_weight);
  });
}

/// What the gradients of cross_entropy's rows share: dx = g (a softmax(x) - b), b: the smoothed and
/// weighted target, a: its sum.
template <class T>
struct CrossEntropyGrad {
  const T *dy, *largest, *log_sum;
  T divisor, smooth, hard, spread;
  bool single;

  CrossEntropyGrad(const Rows<T>& r, const Tensor& tdy, const Tensor& stats,
                   const ClassLoss& options)
      : dy(static_cast<const T*>(tdy.raw())),
        largest(static_cast<const T*>(stats.raw())),
        log_sum(largest + r.n),
        divisor(log_sum[r.n]),
        smooth(static_cast<T>(options.smoothing / static_cast<double>(r.classes))),
        hard(static_cast<T>(1 - options.smoothing)),
        spread(options.smoothing > 0 ? smooth * static_cast<T>(r.total_weight()) : T(0)),
        single(options.shape == LossShape::single) {}

  /// g of row i.
  T incoming(int64_t i) const { return (single ? dy[i] : dy[0]) / divisor; }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
