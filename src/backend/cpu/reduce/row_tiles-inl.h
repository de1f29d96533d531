// Rows by vectors, short rows as columns of a tile, and sums over many terms: what softmax,
// layer_norm and rms_norm share. Include it inside a foreach_target file only.
#if defined(BRIM_BACKEND_CPU_ROW_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_ROW_TILES_INL_H
#undef BRIM_BACKEND_CPU_ROW_TILES_INL_H
#else
#define BRIM_BACKEND_CPU_ROW_TILES_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/transpose-inl.h"
#include "backend/cpu/elementwise/widen-inl.h"
#include "backend/cpu/reduce/gradient_parts.h"
#include "core/context.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kColumns = 64;      // of a tile
inline constexpr int64_t kSummed = 1024;     // terms of a row that are summed in their own type
inline constexpr int64_t kSummedRows = 128;  // and of a column
inline constexpr int64_t kSummedSteps = 32;  // and of a parameter's gradient: of rows, or of tiles

/// Short rows of n elements as columns of a tile, kColumns at most.
template <class T>
HWY_NOINLINE void to_columns(const T* rows, int64_t n, int64_t count, T* tile) {
  transpose(rows, n, count, n, tile, kColumns);
}
template <class T>
void to_rows(const T* tile, int64_t n, int64_t count, T* rows) {
  transpose(tile, kColumns, n, count, rows, n);
}

/// The same of rows that are stored as W, in a tile of T.
template <class W, class T>
void rows_to_tile(const W* rows, int64_t n, int64_t count, T* tile) {
  if constexpr (std::is_same_v<W, T>) {
    to_columns(rows, n, count, tile);
  } else {
    HWY_ALIGN T wide[kShortRow * kColumns];
    convert_run(rows, wide, n * count);
    to_columns(wide, n, count, tile);
  }
}
template <class W, class T>
void tile_to_rows(const T* tile, int64_t n, int64_t count, W* rows) {
  if constexpr (std::is_same_v<W, T>) {
    to_rows(tile, n, count, rows);
  } else {
    HWY_ALIGN T wide[kShortRow * kColumns];
    to_rows(tile, n, count, wide);
    convert_run(wide, rows, n * count);
  }
}

/// A parameter of column j.
template <class W, class T>
T parameter_at(const W* of, int64_t j, T otherwise) {
  return of ? static_cast<T>(of[j]) : otherwise;
}

/// Calls f(vector, at, count) for each vector of the row, which is stored as W, from `begin` on;
/// the last is filled up with `pad`.
template <class T, class W, class F>
void each_vector(const W* x, int64_t n, T pad, const F& f, int64_t begin = 0) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= n; i += lanes) f(load(d, x + i), i, lanes);
  if (hn::MaxLanes(d) == 1 || i == n) return;  // gcc does not see that one lane leaves no rest
  f(load_part(d, x + i, n - i, W(pad)), i, n - i);
}

template <class T, class V>
void store_part(V v, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  if (hn::MaxLanes(d) == 1 || count == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(v, d, y);
    return;
  }
  HWY_ALIGN T tail[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, tail);
  std::copy_n(tail, std::min<int64_t>(count, hn::MaxLanes(d)), y);  // which gcc can bound
}

/// The sum of n terms, a few of them in T, then in f64: add(begin, count, sum) adds `count` to the
/// vector `sum`.
template <class T, class Add>
HWY_INLINE double sum_in_blocks(int64_t n, const Add& add) {
  const hn::ScalableTag<T> d;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSummed) {
    auto sum = hn::Zero(d);
    add(begin, std::min(kSummed, n - begin), sum);
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

/// Sums of kColumns columns at most: terms of a few rows in T, then in f64.
template <class T>
struct ColumnSums {
  HWY_ALIGN T part[kColumns] = {};

  /// Ends a row, whose terms are in `part`.
  HWY_INLINE void end_row() {
    if (++rows_ == kSummedRows) widen();
  }
  void write(int64_t width, T* sum) {
    widen();
    for (int64_t c = 0; c < width; ++c) sum[c] = static_cast<T>(total_[c]);
  }

 private:
  HWY_NOINLINE void widen() {
    for (int64_t c = 0; c < kColumns; ++c) total_[c] += static_cast<double>(part[c]);
    std::fill_n(part, kColumns, T(0));
    rows_ = 0;
  }

  double total_[kColumns] = {};
  int64_t rows_ = 0;
};

/// The numbers that row_gradients() sums for a parameter of n columns: of short rows a tile, of
/// others n and what vectors may reach past them.
template <class T>
int64_t gradient_sums(int64_t n) {
  return n <= kShortRow ? n * kColumns : n + static_cast<int64_t>(HWY_MAX_BYTES / sizeof(T));
}

/// In f64, as eight sums, which need not wait for each other.
template <class T>
double sum_of_columns(const T* x) {
  double sums[8] = {};
  for (int64_t c = 0; c < kColumns; c += 8)
    for (int64_t k = 0; k < 8; ++k) sums[k] += static_cast<double>(x[c + k]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Gradients of the rows [row, end), and the f64 sums of n columns for each of kParameters
/// parameters: terms of a few rows in T, in `part`, gradient_sums() for each parameter.
/// gradient.row(row, part, size) or gradient.short_rows(row, count, part, size) adds to them.
template <class T, class Gradient>
void row_gradients(const Gradient& gradient, int64_t row, int64_t end, T* part, double* sums) {
  const int64_t n = gradient.n, size = gradient_sums<T>(n);
  const int64_t width = n <= kShortRow ? kColumns : 1;
  std::fill_n(sums, Gradient::kParameters * n, 0.0);
  while (row < end) {
    std::fill_n(part, Gradient::kParameters * size, T(0));
    const int64_t some = std::min(row + kSummedSteps * width, end);
    if (n <= kShortRow)
      for (; row < some; row += std::min(width, some - row))
        gradient.short_rows(row, std::min(width, some - row), part, size);
    for (; row < some; ++row) gradient.row(row, part, size);
    for (int64_t p = 0; p < Gradient::kParameters; ++p) {
      const T* const from = part + p * size;
      double* const to = sums + p * n;
      if (n > kShortRow)
        for (int64_t i = 0; i < n; ++i) to[i] += static_cast<double>(from[i]);
      else
        for (int64_t i = 0; i < n; ++i) to[i] += sum_of_columns(from + i * kColumns);
    }
  }
}

/// The gradients of all rows, and of each parameter.
template <class T, class Gradient, class... To>
void sum_gradients(const Context& context, const GradientParts& parts, const Gradient& gradient,
                   To*... parameters) {
  static_assert(sizeof...(To) == Gradient::kParameters);
  const int64_t size = Gradient::kParameters * gradient_sums<T>(parts.n);
  const int64_t sums_of_part = Gradient::kParameters * parts.n;
  const Workspace space =
      context.workspace(parts.sum_bytes() + static_cast<size_t>(parts.count * size) * sizeof(T));
  double* const sums = space.as<double>();
  T* const scratch = reinterpret_cast<T*>(sums + parts.count * sums_of_part + 1);
  if (parts.n > 0)
    parts.each([&](int64_t part, int64_t begin, int64_t end) {
      row_gradients(gradient, begin, end, scratch + part * size, sums + part * sums_of_part);
    });
  parts.add_up(sums, parameters...);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
