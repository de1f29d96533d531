// The loops of reductions, compiled once per instruction set: along contiguous rows, down columns,
// and over any other strides. A reduction is a struct with steps, see kernels/reduce.cpp.
#include <cstdint>
#include <type_traits>

#include "backend/cpu/reduce/reduce_plan.h"

#if defined(BRIM_BACKEND_CPU_REDUCE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_REDUCE_INL_H
#undef BRIM_BACKEND_CPU_REDUCE_INL_H
#else
#define BRIM_BACKEND_CPU_REDUCE_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/elementwise/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kBlock = 4096;  // elements of a dense row gathered before widening
inline constexpr int64_t kDepth = 128;   // of a column, or a quarter of a row that is not dense

/// A vector of elements in the type that they are gathered in.
template <class D, class In>
HWY_INLINE hn::Vec<D> load(D d, const In* x) {
  if constexpr (std::is_same_v<In, hn::TFromD<D>>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<In, D>(), x));
}

/// One dense row, in four vectors.
template <class Op>
typename Op::Lane reduce_dense(const typename Op::In* x, int64_t n, typename Op::Lane center) {
  using T = typename Op::Lane;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto c = hn::Set(d, center);
  auto a0 = hn::Set(d, Op::init()), a1 = a0, a2 = a0, a3 = a0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = Op::step(d, a0, load(d, x + i), c);
    a1 = Op::step(d, a1, load(d, x + i + lanes), c);
    a2 = Op::step(d, a2, load(d, x + i + 2 * lanes), c);
    a3 = Op::step(d, a3, load(d, x + i + 3 * lanes), c);
  }
  for (; i + lanes <= n; i += lanes) a0 = Op::step(d, a0, load(d, x + i), c);
  a0 = Op::join(d, Op::join(d, a0, a1), Op::join(d, a2, a3));
  HWY_ALIGN T lane[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a0, d, lane);
  for (int64_t k = 0; i < n; ++i, ++k) lane[k] = Op::step(lane[k], x[i], center);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) lane[k] = Op::join(lane[k], lane[k + width]);
  return lane[0];
}

template <class Op>
typename Op::Lane reduce_row(const typename Op::In* x, int64_t n, int64_t stride,
                             typename Op::Lane center) {
  if constexpr (Op::kVector)
    if (stride == 1 && n >= 8) return reduce_dense<Op>(x, n, center);
  using Lane = typename Op::Lane;
  if constexpr (std::is_integral_v<Lane>) {
    // The order does not matter, so this is one sum: GCC 12.2 at -O3 adds four interleaved ones of
    // bytes up wrongly.
    Lane a = Op::init();
    for (int64_t i = 0; i < n; ++i) a = Op::step(a, x[i * stride], center);
    return a;
  } else {
    Lane a0 = Op::init(), a1 = a0, a2 = a0, a3 = a0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      a0 = Op::step(a0, x[i * stride], center);
      a1 = Op::step(a1, x[(i + 1) * stride], center);
      a2 = Op::step(a2, x[(i + 2) * stride], center);
      a3 = Op::step(a3, x[(i + 3) * stride], center);
    }
    if (i < n) a0 = Op::step(a0, x[i * stride], center);
    if (i + 1 < n) a1 = Op::step(a1, x[(i + 1) * stride], center);
    if (i + 2 < n) a2 = Op::step(a2, x[(i + 2) * stride], center);
    return Op::join(Op::join(a0, a1), Op::join(a2, a3));
  }
}

/// Runs of the innermost reduced dimension that cover elements [begin, end) of the reduced space.
struct Runs {
  const ReduceDims& dims;
  int64_t inner = 0;
  ReduceDims::Walk row;

  Runs(const ReduceDims& dims, int64_t begin) : dims(dims) {
    if (begin == 0) return;
    inner = begin % dims.size[0];
    row.seek(dims, 1, begin / dims.size[0]);
  }
  int64_t offset() const { return row.offset + inner * dims.stride[0]; }
  int64_t left(int64_t limit) const { return std::min(dims.size[0] - inner, limit); }
  void skip(int64_t n) {
    inner += n;
    if (inner < dims.size[0]) return;
    inner = 0;
    row.next(dims, 1);
  }
};

/// Adds `count` rows of `width` columns to `lane`.
template <class Op>
void add_rows(const typename Op::In* x, int64_t count, int64_t row_stride, int64_t width,
              int64_t stride, const typename Op::Lane* HWY_RESTRICT center,
              typename Op::Lane* HWY_RESTRICT lane) {
  using L = typename Op::Lane;
  const auto c = [&](int64_t j) { return Op::kCentered ? center[j] : L(0); };
  int64_t r = 0;
  if (stride != 1) {
    for (; r < count; ++r)
      for (int64_t j = 0; j < width; ++j)
        lane[j] = Op::step(lane[j], x[r * row_stride + j * stride], c(j));
    return;
  }
  for (; r + 4 <= count; r += 4) {
    const auto *x0 = x + r * row_stride, *x1 = x0 + row_stride, *x2 = x1 + row_stride,
               *x3 = x2 + row_stride;
    for (int64_t j = 0; j < width; ++j)
      lane[j] =
          Op::step(Op::step(Op::step(Op::step(lane[j], x0[j], c(j)), x1[j], c(j)), x2[j], c(j)),
                   x3[j], c(j));
  }
  for (; r < count; ++r)
    for (int64_t j = 0; j < width; ++j) lane[j] = Op::step(lane[j], x[r * row_stride + j], c(j));
}

/// Totals of short dense rows, a tile of them at a time: transposed, a vector goes over the rows.
template <class Op>
void short_rows(const typename Op::In* x, int64_t row_stride, int64_t n, int64_t width,
                const double* centers, typename Op::Total* total) {
  using Lane = typename Op::Lane;
  constexpr int64_t kRows = 64;
  typename Op::In tile[kShortRow * kRows];
  Lane lane[kRows], center[Op::kCentered ? kRows : 1] = {};
  for (int64_t first = 0; first < width; first += kRows) {
    const int64_t count = std::min(kRows, width - first);
    transpose(x + first * row_stride, row_stride, count, n, tile, kRows);
    if constexpr (Op::kCentered)
      if (centers) std::copy_n(centers + first, count, center);
    std::fill_n(lane, count, Op::init());
    add_rows<Op>(tile, n, kRows, count, 1, center, lane);
    for (int64_t j = 0; j < count; ++j) total[first + j] = Op::widen(Op::start(), lane[j]);
  }
}

template <class Op>
void rows(const ReducePlan& plan, const void* data, int64_t first, int64_t width, int64_t begin,
          int64_t end, const double* centers, void* totals) {
  using Lane = typename Op::Lane;
  const auto* x = static_cast<const typename Op::In*>(data);
  auto* total = static_cast<typename Op::Total*>(totals);
  const int64_t block = plan.reduced.stride[0] == 1 ? kBlock : 4 * kDepth;
  ReduceDims::Walk result;
  result.seek(plan.kept, 0, first);
  if constexpr (Op::kVector) {
    const int64_t n = plan.reduced.numel;
    if (plan.reduced.rank == 1 && plan.reduced.stride[0] == 1 && n <= kShortRow &&
        plan.kept.rank == 1 && plan.parts == 1)
      return short_rows<Op>(x + result.offset, plan.kept.stride[0], n, width,
                            centers ? centers + first : nullptr, total);
  }
  for (int64_t j = 0; j < width; ++j, result.next(plan.kept, 0)) {
    Lane center = 0;
    if constexpr (Op::kCentered)
      if (centers) center = centers[first + j];
    total[j] = Op::start();
    Runs runs(plan.reduced, begin);
    for (int64_t at = begin; at < end;) {
      const int64_t n = std::min(runs.left(end - at), block);
      total[j] = Op::widen(total[j], reduce_row<Op>(x + result.offset + runs.offset(), n,
                                                    plan.reduced.stride[0], center));
      at += n;
      runs.skip(n);
    }
  }
}

template <class Op>
void columns(const ReducePlan& plan, const void* data, int64_t first, int64_t width, int64_t begin,
             int64_t end, const double* centers, void* totals) {
  using Lane = typename Op::Lane;
  auto* total = static_cast<typename Op::Total*>(totals);
  Lane lane[kReduceTile], center[Op::kCentered ? kReduceTile : 1] = {};
  for (int64_t j = 0; j < width; ++j) total[j] = Op::start();
  if constexpr (Op::kCentered)
    if (centers) std::copy_n(centers + first, width, center);
  ReduceDims::Walk result;
  result.seek(plan.kept, 0, first);
  const auto* x = static_cast<const typename Op::In*>(data) + result.offset;
  Runs runs(plan.reduced, begin);
  while (begin < end) {
    for (int64_t j = 0; j < width; ++j) lane[j] = Op::init();
    int64_t budget = std::min(kDepth, end - begin);
    begin += budget;
    while (budget > 0) {
      const int64_t n = runs.left(budget);
      add_rows<Op>(x + runs.offset(), n, plan.reduced.stride[0], width, plan.kept.stride[0], center,
                   lane);
      budget -= n;
      runs.skip(n);
    }
    for (int64_t j = 0; j < width; ++j) total[j] = Op::widen(total[j], lane[j]);
  }
}

template <class Op>
void combine(void* total, const void* other, int64_t width) {
  using Total = typename Op::Total;
  auto* a = static_cast<Total*>(total);
  for (int64_t j = 0; j < width; ++j) a[j] = Op::combine(a[j], static_cast<const Total*>(other)[j]);
}

template <class Op>
void finish(const void* total, int64_t first, int64_t width, double param, void* y) {
  auto* to = static_cast<typename Op::Out*>(y) + first;
  for (int64_t j = 0; j < width; ++j)
    to[j] = Op::finish(static_cast<const typename Op::Total*>(total)[j], param);
}

template <class Op>
void nothing(double param, int64_t count, void* y) {
  std::fill_n(static_cast<typename Op::Out*>(y), count, Op::finish(Op::start(), param));
}

template <class Op>
inline constexpr ReduceSteps kSteps = {rows<Op>, columns<Op>, combine<Op>, finish<Op>, nothing<Op>};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
