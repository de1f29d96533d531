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

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/transpose-inl.h"
#include "backend/cpu/elementwise/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kBlock = 4096;  // elements of a dense row gathered before widening
inline constexpr int64_t kDepth = 128;   // of a column, or a quarter of a row that is not dense

template <class T>
inline constexpr bool kIs16BitFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// `count` rows of `width` elements as the loops take them: where they lie, or as f32 in a block
/// that stays in the L1 cache if kWiden: f16 always, which costs more to widen one by one, and
/// bf16 where rows are transposed.
template <class Stored, bool kWiden = std::is_same_v<Stored, Half>>
struct Elements {
  using Type = std::conditional_t<kWiden, float, Stored>;
  static constexpr bool kWidens = kWiden;
  static constexpr int64_t kCapacity = kWidens ? kBlock : 1;  // of a block

  const Type* data;
  int64_t row_stride, stride;

  /// `block` takes count * width elements if kWidens.
  Elements(const Stored* x, int64_t count, int64_t row_step, int64_t width, int64_t step,
           [[maybe_unused]] Type* block)
      : row_stride(row_step), stride(step) {
    if constexpr (kWidens) {
      if (step == 1 && (row_step == width || count == 1))
        convert_run(x, block, count * width);
      else
        for (int64_t r = 0; r < count; ++r) widen(x + r * row_step, step, width, block + r * width);
      data = block;
      row_stride = width;
      stride = 1;
    } else {
      data = x;
    }
  }

 private:
  static void widen(const Stored* x, int64_t step, int64_t n, Type* to) {
    if (step == 1) return convert_run(x, to, n);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Type>(x[i * step]);
  }
};

/// One dense row, in four vectors.
template <class Op, class Element>
typename Op::Lane reduce_dense(const Element* x, int64_t n, typename Op::Lane center) {
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
  for (int64_t k = 0; i < n; ++i, ++k)
    lane[k] = Op::step(lane[k], static_cast<typename Op::In>(x[i]), center);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) lane[k] = Op::join(lane[k], lane[k + width]);
  return lane[0];
}

template <class Op, class Element>
typename Op::Lane reduce_row(const Element* x, int64_t n, int64_t stride,
                             typename Op::Lane center) {
  const auto at = [&](int64_t i) { return static_cast<typename Op::In>(x[i * stride]); };
  if constexpr (Op::kVector)
    if (stride == 1 && n >= 8) return reduce_dense<Op>(x, n, center);
  using Lane = typename Op::Lane;
  if constexpr (std::is_integral_v<Lane>) {
    // The order does not matter, so this is one sum: GCC 12.2 at -O3 adds four interleaved ones of
    // bytes up wrongly.
    Lane a = Op::init();
    for (int64_t i = 0; i < n; ++i) a = Op::step(a, at(i), center);
    return a;
  } else {
    Lane a0 = Op::init(), a1 = a0, a2 = a0, a3 = a0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      a0 = Op::step(a0, at(i), center);
      a1 = Op::step(a1, at(i + 1), center);
      a2 = Op::step(a2, at(i + 2), center);
      a3 = Op::step(a3, at(i + 3), center);
    }
    if (i < n) a0 = Op::step(a0, at(i), center);
    if (i + 1 < n) a1 = Op::step(a1, at(i + 1), center);
    if (i + 2 < n) a2 = Op::step(a2, at(i + 2), center);
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
template <class Op, class Element>
void add_rows(const Element* x, int64_t count, int64_t row_stride, int64_t width, int64_t stride,
              const typename Op::Lane* HWY_RESTRICT center, typename Op::Lane* HWY_RESTRICT lane) {
  using L = typename Op::Lane;
  const auto add = [&](L sum, Element element, int64_t j) {
    return Op::step(sum, static_cast<typename Op::In>(element), Op::kCentered ? center[j] : L(0));
  };
  int64_t r = 0;
  if (stride != 1) {
    for (; r < count; ++r)
      for (int64_t j = 0; j < width; ++j) lane[j] = add(lane[j], x[r * row_stride + j * stride], j);
    return;
  }
  for (; r + 4 <= count; r += 4) {
    const auto *x0 = x + r * row_stride, *x1 = x0 + row_stride, *x2 = x1 + row_stride,
               *x3 = x2 + row_stride;
    for (int64_t j = 0; j < width; ++j)
      lane[j] = add(add(add(add(lane[j], x0[j], j), x1[j], j), x2[j], j), x3[j], j);
  }
  for (; r < count; ++r)
    for (int64_t j = 0; j < width; ++j) lane[j] = add(lane[j], x[r * row_stride + j], j);
}

/// Totals of short dense rows, a tile of them at a time: transposed, a vector goes over the rows.
template <class Op, class Stored>
void short_rows(const Stored* x, int64_t row_stride, int64_t n, int64_t width,
                const double* centers, typename Op::Total* total) {
  using Lane = typename Op::Lane;
  constexpr bool kWidens = kIs16BitFloat<Stored>;
  using Rows = Elements<Stored, kWidens>;
  constexpr int64_t kRows = 64;
  typename Rows::Type tile[kShortRow * kRows], block[kWidens ? kShortRow * kRows : 1];
  Lane lane[kRows], center[Op::kCentered ? kRows : 1] = {};
  for (int64_t first = 0; first < width; first += kRows) {
    const int64_t count = std::min(kRows, width - first);
    const Rows rows(x + first * row_stride, count, row_stride, n, 1, block);
    transpose(rows.data, rows.row_stride, count, n, tile, kRows);
    if constexpr (Op::kCentered)
      if (centers) std::copy_n(centers + first, count, center);
    std::fill_n(lane, count, Op::init());
    add_rows<Op>(tile, n, kRows, count, 1, center, lane);
    for (int64_t j = 0; j < count; ++j) total[first + j] = Op::widen(Op::start(), lane[j]);
  }
}

template <class Op, class Stored>
void rows(const ReducePlan& plan, const void* data, int64_t first, int64_t width, int64_t begin,
          int64_t end, const double* centers, void* totals) {
  using Lane = typename Op::Lane;
  using Row = Elements<Stored>;
  const auto* x = static_cast<const Stored*>(data);
  auto* total = static_cast<typename Op::Total*>(totals);
  const int64_t block = plan.reduced.stride[0] == 1 ? kBlock : 4 * kDepth;
  ReduceDims::Walk result;
  result.seek(plan.kept, 0, first);
  if constexpr (Op::kVector) {
    const int64_t n = plan.reduced.numel;
    if (plan.reduced.rank == 1 && plan.reduced.stride[0] == 1 && n <= kShortRow &&
        plan.kept.rank == 1 && plan.parts == 1)
      return short_rows<Op, Stored>(x + result.offset, plan.kept.stride[0], n, width,
                                    centers ? centers + first : nullptr, total);
  }
  typename Row::Type wide[Row::kCapacity];
  for (int64_t j = 0; j < width; ++j, result.next(plan.kept, 0)) {
    Lane center = 0;
    if constexpr (Op::kCentered)
      if (centers) center = centers[first + j];
    total[j] = Op::start();
    Runs runs(plan.reduced, begin);
    for (int64_t at = begin; at < end;) {
      const int64_t n = std::min(runs.left(end - at), block);
      const Row row(x + result.offset + runs.offset(), 1, 0, n, plan.reduced.stride[0], wide);
      total[j] = Op::widen(total[j], reduce_row<Op>(row.data, n, row.stride, center));
      at += n;
      runs.skip(n);
    }
  }
}

template <class Op, class Stored>
void columns(const ReducePlan& plan, const void* data, int64_t first, int64_t width, int64_t begin,
             int64_t end, const double* centers, void* totals) {
  using Lane = typename Op::Lane;
  using Rows = Elements<Stored>;
  const int64_t max_rows = Rows::kWidens ? kBlock / std::max<int64_t>(width, 1) : kDepth;
  typename Rows::Type wide[Rows::kCapacity];
  auto* total = static_cast<typename Op::Total*>(totals);
  Lane lane[kReduceTile], center[Op::kCentered ? kReduceTile : 1] = {};
  for (int64_t j = 0; j < width; ++j) total[j] = Op::start();
  if constexpr (Op::kCentered)
    if (centers) std::copy_n(centers + first, width, center);
  ReduceDims::Walk result;
  result.seek(plan.kept, 0, first);
  const auto* x = static_cast<const Stored*>(data) + result.offset;
  Runs runs(plan.reduced, begin);
  while (begin < end) {
    for (int64_t j = 0; j < width; ++j) lane[j] = Op::init();
    int64_t budget = std::min(kDepth, end - begin);
    begin += budget;
    while (budget > 0) {
      const int64_t n = runs.left(std::min(budget, max_rows));
      const Rows rows(x + runs.offset(), n, plan.reduced.stride[0], width, plan.kept.stride[0],
                      wide);
      add_rows<Op>(rows.data, n, rows.row_stride, width, rows.stride, center, lane);
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

/// Of results: what elements are stored as, where Op gives numbers of their type.
template <class Op, class Stored>
using ResultOf =
    std::conditional_t<std::is_same_v<typename Op::Out, typename Op::In>, Stored, typename Op::Out>;

template <class Op, class Stored>
void finish(const void* total, int64_t first, int64_t width, double param, void* y) {
  using Result = ResultOf<Op, Stored>;
  auto* to = static_cast<Result*>(y) + first;
  for (int64_t j = 0; j < width; ++j)
    to[j] =
        static_cast<Result>(Op::finish(static_cast<const typename Op::Total*>(total)[j], param));
}

template <class Op, class Stored>
void nothing(double param, int64_t count, void* y) {
  using Result = ResultOf<Op, Stored>;
  std::fill_n(static_cast<Result*>(y), count, static_cast<Result>(Op::finish(Op::start(), param)));
}

/// Op on elements that are stored as its own type, or as 16-bit floats.
template <class Op, class Stored = typename Op::In>
inline constexpr ReduceSteps kSteps = {rows<Op, Stored>, columns<Op, Stored>, combine<Op>,
                                       finish<Op, Stored>, nothing<Op, Stored>};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
