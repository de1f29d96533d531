// multinomial: categories drawn by weights, with replacement by the inverse of their running sum,
// without it by the order of exponential numbers over the weights (Efraimidis and Spirakis 2006)
#include <cmath>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>

#include "backend/kernel.h"
#include "core/recording.h"
#include "ops/checks.h"

namespace brim {
namespace {

/// weights: (N, M) on the CPU, row-major.
template <class T>
void check_weights(const Tensor& weights, int64_t samples, bool replacement) {
  const int64_t categories = weights.size(1);
  const T* w = weights.data<T>();
  for (int64_t row = 0; row < weights.size(0); ++row, w += categories) {
    int64_t drawn = 0, wrong = 0;
    for (int64_t i = 0; i < categories; ++i) {
      wrong += !((w[i] >= 0) & (w[i] <= std::numeric_limits<T>::max()));
      drawn += w[i] > 0;
    }
    for (int64_t i = 0; wrong > 0 && i < categories; ++i)
      BRIM_CHECK(w[i] >= 0 && std::isfinite(w[i]), ValueError,
                 "[multinomial] weight {} of category {} in row {} is not a finite number of 0 or "
                 "more",
                 w[i], i, row);
    BRIM_CHECK(drawn >= (replacement ? 1 : samples), ValueError,
               "[multinomial] row {} has {} categories with a weight for {} samples {} "
               "replacement",
               row, drawn, samples, replacement ? "with" : "without");
  }
}

/// The number of ends that lie at or below each u, both sorted together: no (N, M, samples) in
/// memory. ends: (N, M), ascending; u: (N, samples).
Tensor count_below(const Tensor& ends, const Tensor& u) {
  const int64_t categories = ends.size(1), samples = u.size(1);
  const Tensor order = argsort(cat({ends, u}, 1), 1);  // of equal ones the end comes first
  const Tensor below = cumsum(lt(order, static_cast<double>(categories)), 1);
  return scatter(zeros_like(below), 1, order, below).slice(1, categories, categories + samples);
}

/// weights: (N, M). All sums are of f64 numbers: u times the sum of all stays below it.
Tensor with_replacement(const Tensor& weights, int64_t samples, Generator* generator) {
  static const backend::Kernel<void(const Context&, const Tensor& weights, const Tensor& u,
                                    Tensor& y)>
      kernel("multinomial", {.operands = "weights, u, y"});
  const Device device = weights.device();
  const Tensor u = rand({weights.size(0), samples}, {.dtype = f64, .device = device}, generator);
  if (kernel.exists(device, weights.dtype())) {
    Tensor y = Tensor::empty(u.shape(), i64, device);
    kernel(device, weights.dtype(), weights, u, y);
    return y;
  }
  const Tensor ends = cumsum(weights.to(f64), 1);
  return count_below(ends, mul(u, ends.slice(1, -1, weights.size(1)))).contiguous();
}

Tensor without_replacement(const Tensor& weights, int64_t samples, Generator* generator) {
  const Tensor wide = weights.to(f64);
  Tensor u = empty_like(wide);
  u.uniform_(0x1p-64, 1, generator);
  return topk(div(wide, neg(log(u))), samples, 1).indices;
}

}  // namespace

Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement, Generator* generator) {
  ops::check_floating("multinomial", weights);
  BRIM_CHECK(weights.rank() == 1 || weights.rank() == 2, ShapeError,
             "[multinomial] expects weights (M) or (N, M), got shape {}", weights.shape().str());
  const int64_t categories = weights.size(-1);
  BRIM_CHECK(samples >= 1 && categories >= 1, ValueError,
             "[multinomial] {} samples of {} categories; there must be 1 or more of both", samples,
             categories);
  BRIM_CHECK(replacement || samples <= categories, ValueError,
             "[multinomial] {} samples of {} categories without replacement; take fewer, or pass "
             "replacement = true",
             samples, categories);
  const NoGrad no_history;
  const Tensor rows =
      weights.reshape({-1, categories}).to(ops::statistics_dtype(weights.dtype())).contiguous();
  if (rows.device().is_cpu() && !recording)
    (rows.dtype() == f64 ? check_weights<double> : check_weights<float>)(rows, samples,
                                                                         replacement);
  const Tensor drawn = replacement ? with_replacement(rows, samples, generator)
                                   : without_replacement(rows, samples, generator);
  return weights.rank() == 1 ? drawn.reshape({samples}) : drawn;
}

}  // namespace brim
