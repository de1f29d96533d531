// What cross_entropy and nll_loss share. Each row leaves a loss; a reduction over rows makes the
// sum or the mean, in f64 and always in the same order. A label out of range is reported (fault.h);
// its row counts as ignored.
#pragma once

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/reduce.cuh"
#include "backend/cuda/runtime/fault.cuh"
#include "backend/options/class_loss.h"

namespace brim::cuda {

using backend::ClassLoss;
using backend::LossShape;

/// The operands that all kernels share.
template <class T>
struct Rows {
  using C = Compute<T>;
  const T* x;
  const int64_t* label;
  const T* weight;  // may be null
  int64_t n, classes, ignore_index;
  double smoothing;

  Rows(const Tensor& tx, const Tensor& target, const Tensor& tweight, const ClassLoss& options)
      : Rows(tx.shape()[0], tx.shape()[1], target, tweight, options) {
    x = data<const T>(tx);
  }
  /// Without logits: the kernel makes them.
  Rows(int64_t rows, int64_t columns, const Tensor& target, const Tensor& tweight,
       const ClassLoss& options)
      : x(nullptr),
        label(data<const int64_t>(target)),
        weight(tweight.defined() ? data<const T>(tweight) : nullptr),
        n(rows),
        classes(columns),
        ignore_index(options.ignore_index),
        smoothing(options.smoothing) {}

  __device__ bool counts(int64_t row) const {
    return label[row] != ignore_index && label[row] >= 0 && label[row] < classes;
  }
  __device__ C of_class(int64_t k) const { return weight ? widen(weight[k]) : C(1); }
  __device__ C factor(int64_t row) const { return of_class(label[row]); }
  /// The share of each class in a smoothed target.
  __device__ double smooth() const {
    return smoothing > 0 ? smoothing / static_cast<double>(classes) : 0;
  }
  __device__ void check(int64_t row, const char* op, Fault* fault) const {
    const int64_t l = label[row];
    if ((l < 0 || l >= classes) && l != ignore_index)
      report(fault, {.kind = FaultKind::label,
                     .text = op,
                     .axis = ignore_index,
                     .value = l,
                     .position = row,
                     .size = classes});
  }
};

/// Sum of losses and of the weights of rows that count; what a mean divides by is the latter.
template <class T>
struct LossTotal {
  using C = Compute<T>;
  struct Total {
    double loss, weight;
  };
  using Lane = Total;
  Rows<T> rows;
  const C* losses;  // null: only the weights are wanted
  LossShape shape;
  T* loss;     // null: not wanted
  C* divisor;  // the same

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& a, int64_t, int64_t row, int64_t) const {
    if (!rows.counts(row)) return;
    if (losses) a.loss += static_cast<double>(losses[row]);
    a.weight += static_cast<double>(rows.factor(row));
  }
  __device__ Total widen(const Lane& a) const { return a; }
  __device__ Total combine(const Total& a, const Total& b) const {
    return {a.loss + b.loss, a.weight + b.weight};
  }
  __device__ void finish(int64_t, const Total& t) const {
    const double by = shape == LossShape::mean ? t.weight : 1;
    if (divisor) *divisor = static_cast<C>(by);
    if (loss) *loss = narrow<T>(static_cast<C>(t.loss / by));
  }
};

template <class T>
void total(const Context& context, const LossTotal<T>& op) {
  reduce(context, op, ReduceShape(Shape({op.rows.n}), Strides({1}), Strides({0})));
}

/// Where a row kernel leaves the rows' losses: the result itself, or scratch for what is summed.
template <class T>
struct Losses {
  T* single;  // null unless there is one result per row
  Compute<T>* to_be_summed;

  __device__ void write(int64_t row, Compute<T> loss) const {
    if (single)
      single[row] = narrow<T>(loss);
    else
      to_be_summed[row] = loss;
  }
};

/// Runs `rows_kernel(losses)`, then what makes one loss of them.
template <class T, class Kernel>
void with_losses(const Context& context, const Rows<T>& r, Tensor& loss, Compute<T>* divisor,
                 LossShape shape, const Kernel& rows_kernel) {
  const bool single = shape == LossShape::single;
  const Workspace scratch =
      context.workspace(static_cast<size_t>(single ? 1 : r.n + 1) * sizeof(Compute<T>));
  Compute<T>* const losses = scratch.as<Compute<T>>();
  if (r.n > 0) rows_kernel(Losses<T>{single ? data<T>(loss) : nullptr, losses});
  total(context, LossTotal<T>{r, single ? nullptr : losses, shape, single ? nullptr : data<T>(loss),
                              divisor});
}

}  // namespace brim::cuda
