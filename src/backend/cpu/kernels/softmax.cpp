// softmax, log_softmax, their gradients and logsumexp on the CPU. Tensors are row-major and seen as
// (outer, n, inner); inner == 1 works on rows, others on a tile of columns at a time, and so do
// short rows, transposed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/cpu/reduce/softmax_narrow-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/fused/chain.h"
#include "backend/kernel.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kExpGrain = 8192;   // elements per thread at least
constexpr int64_t kCached = 1 << 20;  // elements of 16 bits that the caches hold

struct View {
  int64_t outer = 1, n, inner = 1;
  View(const Tensor& x, int axis) : n(x.shape()[axis]) {
    for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x.shape()[i];
  }
};

/// row(offset) for each row, short(offset, count) for short rows, or columns(offset, width) for
/// tiles of columns.
template <class Row, class Short, class Columns>
void for_each_slice(const View& v, const Row& row, const Short& short_rows,
                    const Columns& columns) {
  if (v.n == 0 || v.inner == 0) return;
  if (v.inner == 1) {
    parallel_for(v.outer, std::max<int64_t>(1, kExpGrain / v.n), [&](int64_t begin, int64_t end) {
      if (v.n <= kShortRow)
        for (; begin < end; begin += kColumns)
          short_rows(begin * v.n, std::min(kColumns, end - begin));
      else
        for (; begin < end; ++begin) row(begin * v.n);
    });
    return;
  }
  const int64_t tiles = (v.inner + kColumns - 1) / kColumns;
  const int64_t work = v.n * std::min(v.inner, kColumns);
  parallel_for(
      v.outer * tiles, std::max<int64_t>(1, kExpGrain / work), [&](int64_t begin, int64_t end) {
        for (; begin < end; ++begin) {
          const int64_t first = begin % tiles * kColumns;
          columns(begin / tiles * v.n * v.inner + first, std::min(kColumns, v.inner - first));
        }
      });
}

template <class T>
void softmax_columns(const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log) {
  HWY_ALIGN T largest[kColumns], sum[kColumns] = {};
  columns_sum_exp(x, n, inner, width, largest, sum, log ? nullptr : y);
  if (log) {
    log_columns(sum, width);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < width; ++c)
        y[j * inner + c] = (x[j * inner + c] - largest[c]) - sum[c];
  } else {
    for (int64_t c = 0; c < width; ++c) sum[c] = 1 / sum[c];
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < width; ++c) y[j * inner + c] *= sum[c];
  }
}

constexpr int64_t kTileRows = 128;  // of columns that are copied together

/// Copies rows of `width` numbers, kColumns at most.
template <class T>
void copy_rows(const T* from, int64_t from_row, int64_t n, int64_t width, T* to, int64_t to_row) {
  for (int64_t j = 0; j < n; ++j) std::copy_n(from + j * from_row, width, to + j * to_row);
}

/// Of a few rows, whose columns are read once and written once: where rows lie at distances of
/// pages, the L1 cache would not keep them from one pass to the next.
template <class T>
void softmax_tile(const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log) {
  HWY_ALIGN T tile[kTileRows * kColumns];
  copy_rows(x, inner, n, width, tile, kColumns);
  softmax_columns(tile, tile, n, kColumns, width, log);
  copy_rows(tile, kColumns, n, width, y, inner);
}

template <class T, bool kLog>
void softmax_row(const T* x, T* y, int64_t n) {
  const T largest = row_max(x, n);
  const T sum = row_sum_exp<T>(x, n, largest, kLog ? nullptr : y);
  if constexpr (kLog) {
    const T log_sum = std::log(sum);
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log_sum;
  } else {
    const T scale = 1 / sum;
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

template <class T, bool kLog>
void softmax_short_rows(const T* x, T* y, int64_t n, int64_t count) {
  HWY_ALIGN T tile[kShortRow * kColumns];
  to_columns(x, n, count, tile);
  softmax_columns(tile, tile, n, kColumns, count, kLog);
  to_rows(tile, n, count, y);
}

template <class T, bool kLog>
void softmax(const Context&, const Tensor& tx, Tensor& ty, int axis) {
  const View v(tx, axis);
  const T* x = static_cast<const T*>(tx.raw());
  T* y = static_cast<T*>(ty.raw());
  for_each_slice(
      v, [&](int64_t at) { softmax_row<T, kLog>(x + at, y + at, v.n); },
      [&](int64_t at, int64_t count) { softmax_short_rows<T, kLog>(x + at, y + at, v.n, count); },
      [&](int64_t at, int64_t width) {
        v.n <= kTileRows ? softmax_tile(x + at, y + at, v.n, v.inner, width, kLog)
                         : softmax_columns(x + at, y + at, v.n, v.inner, width, kLog);
      });
}

/// dx = y (dy - sum(dy y)), for log_softmax dx = dy - exp(y) sum(dy). dx may be dy.
template <class T, bool kLog>
void softmax_grad_row(const T* dy, const T* y, T* dx, int64_t n) {
  const hn::ScalableTag<T> d;
  const double sums = sum_in_blocks<T>(n, [&](int64_t begin, int64_t of_block, auto& sum) HWY_ATTR {
    const T* const out = y + begin;
    each_vector<T>(dy + begin, of_block, 0, [&](auto g, int64_t i, int64_t count) HWY_ATTR {
      if constexpr (kLog) {
        sum = hn::Add(sum, g);
      } else if (count == static_cast<int64_t>(hn::Lanes(d))) {
        sum = hn::MulAdd(g, hn::LoadU(d, out + i), sum);
      } else {
        each_vector<T>(out + i, count, 0,
                       [&](auto w, int64_t, int64_t) { sum = hn::MulAdd(g, w, sum); });
      }
    });
  });
  const T s = static_cast<T>(sums);
  if constexpr (kLog) {
    const auto total = hn::Set(d, s);
    each_vector<T>(y, n, 0, [&](auto w, int64_t i, int64_t count) {
      // The same for all elements, those behind the last whole vector too.
      each_vector<T>(dy + i, count, 0, [&](auto g, int64_t, int64_t) {
        store_part(hn::NegMulAdd(total, exp_below_0(d, w), g), dx + i, count);
      });
    });
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - s);
  }
}

template <class T, bool kLog>
void softmax_grad_columns(const T* dy, const T* y, T* dx, int64_t n, int64_t inner, int64_t width) {
  HWY_ALIGN T sum[kColumns] = {}, e[kColumns] = {};
  ColumnSums<T> sums;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t i = j * inner + c;
      sums.part[c] += kLog ? dy[i] : dy[i] * y[i];
    }
    sums.end_row();
  }
  sums.write(width, sum);
  for (int64_t row = 0; row < n * inner; row += inner) {
    if constexpr (kLog) {
      std::copy_n(y + row, width, e);
      exp_columns(e, width);
      for (int64_t c = 0; c < width; ++c) dx[row + c] = dy[row + c] - e[c] * sum[c];
    } else {
      for (int64_t c = 0; c < width; ++c) dx[row + c] = y[row + c] * (dy[row + c] - sum[c]);
    }
  }
}

/// As softmax_tile.
template <class T, bool kLog>
void softmax_grad_tile(const T* dy, const T* y, T* dx, int64_t n, int64_t inner, int64_t width) {
  HWY_ALIGN T up[kTileRows * kColumns], out[kTileRows * kColumns];
  copy_rows(dy, inner, n, width, up, kColumns);
  copy_rows(y, inner, n, width, out, kColumns);
  softmax_grad_columns<T, kLog>(up, out, up, n, kColumns, width);
  copy_rows(up, kColumns, n, width, dx, inner);
}

template <class T, bool kLog>
void softmax_grad_short_rows(const T* dy, const T* y, T* dx, int64_t n, int64_t count) {
  HWY_ALIGN T up[kShortRow * kColumns], out[kShortRow * kColumns];
  to_columns(dy, n, count, up);
  to_columns(y, n, count, out);
  softmax_grad_columns<T, kLog>(up, out, up, n, kColumns, count);
  to_rows(up, n, count, dx);
}

template <class T, bool kLog>
void softmax_grad(const Context&, const Tensor& tdy, const Tensor& ty, Tensor& tdx, int axis) {
  const View v(ty, axis);
  const T* dy = static_cast<const T*>(tdy.raw());
  const T* y = static_cast<const T*>(ty.raw());
  T* dx = static_cast<T*>(tdx.raw());
  for_each_slice(
      v, [&](int64_t at) { softmax_grad_row<T, kLog>(dy + at, y + at, dx + at, v.n); },
      [&](int64_t at, int64_t count) {
        softmax_grad_short_rows<T, kLog>(dy + at, y + at, dx + at, v.n, count);
      },
      [&](int64_t at, int64_t width) {
        v.n <= kTileRows
            ? softmax_grad_tile<T, kLog>(dy + at, y + at, dx + at, v.n, v.inner, width)
            : softmax_grad_columns<T, kLog>(dy + at, y + at, dx + at, v.n, v.inner, width);
      });
}

// Of numbers stored as W in 16 bits, rounded once.
template <class W, bool kLog>
void narrow_softmax_short_rows(const W* x, W* y, int64_t n, int64_t count) {
  HWY_ALIGN float rows[kShortRow * kColumns], tile[kShortRow * kColumns];
  convert_run(x, rows, n * count);
  to_columns(rows, n, count, tile);
  narrow_softmax_columns<kLog>(tile, tile, n, kColumns, count, false);
  to_rows(tile, n, count, rows);
  convert_run(rows, y, n * count);
}

template <class W, bool kLog>
void narrow_softmax(const Tensor& tx, Tensor& ty, int axis) {
  const View v(tx, axis);
  const W* x = static_cast<const W*>(tx.raw());
  W* y = static_cast<W*>(ty.raw());
  const bool fetches = tx.numel() > kCached;
  for_each_slice(
      v, [&](int64_t at) { narrow_softmax_row<kLog>(x + at, y + at, v.n); },
      [&](int64_t at, int64_t count) {
        narrow_softmax_short_rows<W, kLog>(x + at, y + at, v.n, count);
      },
      [&](int64_t at, int64_t width) {
        narrow_softmax_columns<kLog>(x + at, y + at, v.n, v.inner, width, fetches);
      });
}

template <class W, bool kLog>
void narrow_softmax_grad_short_rows(const W* dy, const W* y, W* dx, int64_t n, int64_t count) {
  HWY_ALIGN float rows[kShortRow * kColumns], up[kShortRow * kColumns], out[kShortRow * kColumns];
  convert_run(dy, rows, n * count);
  to_columns(rows, n, count, up);
  convert_run(y, rows, n * count);
  to_columns(rows, n, count, out);
  narrow_softmax_grad_columns<kLog>(up, out, up, n, kColumns, count, false);
  to_rows(up, n, count, rows);
  convert_run(rows, dx, n * count);
}

template <class W, bool kLog>
void narrow_softmax_grad(const Tensor& tdy, const Tensor& ty, Tensor& tdx, int axis) {
  const View v(ty, axis);
  const W* dy = static_cast<const W*>(tdy.raw());
  const W* y = static_cast<const W*>(ty.raw());
  W* dx = static_cast<W*>(tdx.raw());
  const bool fetches = ty.numel() > kCached;
  for_each_slice(
      v, [&](int64_t at) { narrow_softmax_grad_row<kLog>(dy + at, y + at, dx + at, v.n); },
      [&](int64_t at, int64_t count) {
        narrow_softmax_grad_short_rows<W, kLog>(dy + at, y + at, dx + at, v.n, count);
      },
      [&](int64_t at, int64_t width) {
        narrow_softmax_grad_columns<kLog>(dy + at, y + at, dx + at, v.n, v.inner, width, fetches);
      });
}

/// y = log(sum(exp(x))) along the last axis; -inf for a row of -inf and for an empty one.
template <class T>
void logsumexp(const Context&, const Tensor& tx, Tensor& ty) {
  const int64_t rows = ty.numel(), n = tx.shape().back();
  const T* x = static_cast<const T*>(tx.raw());
  T* y = static_cast<T*>(ty.raw());
  parallel_for(
      rows, std::max<int64_t>(1, kExpGrain / std::max<int64_t>(n, 1)),
      [&](int64_t begin, int64_t end) {
        for (; begin < end; ++begin) {
          T m = row_max(x + begin * n, n);
          // Infinities are their own answer; NaN passes through the sum.
          y[begin] = std::isinf(m) ? m : m + std::log(row_sum_exp<T>(x + begin * n, n, m, nullptr));
        }
      });
}

// As links of chains, with the same results.
template <class T, bool kLog>
void softmax_link(void* const* operands, int64_t n, const formula::Params&) {
  const T* x = static_cast<const T*>(operands[0]);
  T* y = static_cast<T*>(operands[1]);
  n <= kShortRow ? softmax_short_rows<T, kLog>(x, y, n, 1) : softmax_row<T, kLog>(x, y, n);
}
template <class T, bool kLog>
void softmax_grad_link(void* const* operands, int64_t n, const formula::Params&) {
  const T *dy = static_cast<const T*>(operands[0]), *y = static_cast<const T*>(operands[1]);
  T* dx = static_cast<T*>(operands[2]);
  n <= kShortRow ? softmax_grad_short_rows<T, kLog>(dy, y, dx, n, 1)
                 : softmax_grad_row<T, kLog>(dy, y, dx, n);
}

template <class W, bool kLog>
void narrow_softmax_link(void* const* operands, int64_t n, const formula::Params&) {
  const W* x = static_cast<const W*>(operands[0]);
  W* y = static_cast<W*>(operands[1]);
  n <= kShortRow ? narrow_softmax_short_rows<W, kLog>(x, y, n, 1)
                 : narrow_softmax_row<kLog>(x, y, n);
}
template <class W, bool kLog>
void narrow_softmax_grad_link(void* const* operands, int64_t n, const formula::Params&) {
  const W *dy = static_cast<const W*>(operands[0]), *y = static_cast<const W*>(operands[1]);
  W* dx = static_cast<W*>(operands[2]);
  n <= kShortRow ? narrow_softmax_grad_short_rows<W, kLog>(dy, y, dx, n, 1)
                 : narrow_softmax_grad_row<kLog>(dy, y, dx, n);
}

/// In registers where this CPU converts W there.
template <class W, bool kLog>
void softmax_16_bits(const Context& context, const Tensor& x, Tensor& y, int axis) {
  constexpr auto kAxes = [](const Tensor&, const Tensor&, int rows) { return rows; };
  if constexpr (kInRegisters<W>)
    narrow_softmax<W, kLog>(x, y, axis);
  else
    RowsThroughF32<&softmax<float, kLog>, kAxes, 0, 1>::run(context, x, y, axis);
}
template <class W, bool kLog>
void softmax_grad_16_bits(const Context& context, const Tensor& dy, const Tensor& y, Tensor& dx,
                          int axis) {
  constexpr auto kAxes = [](const Tensor&, const Tensor&, const Tensor&, int rows) { return rows; };
  if constexpr (kInRegisters<W>)
    narrow_softmax_grad<W, kLog>(dy, y, dx, axis);
  else
    RowsThroughF32<&softmax_grad<float, kLog>, kAxes, 0, 1, 2>::run(context, dy, y, dx, axis);
}

template <bool kLog>
void register_both(const char* forward, const char* gradient) {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::for_each_type(formula::List<float, double>{}, [&]<class T>(std::type_identity<T>) {
    backend::register_kernel(forward, cpu, dtype_of<T>, &softmax<T, kLog>);
    backend::register_kernel(gradient, cpu, dtype_of<T>, &softmax_grad<T, kLog>);
    backend::register_row_link(forward, dtype_of<T>, &softmax_link<T, kLog>);
    backend::register_row_link(gradient, dtype_of<T>, &softmax_grad_link<T, kLog>);
  });
  backend::for_each_type(formula::List<Half, BFloat16>{}, [&]<class W>(std::type_identity<W>) {
    backend::register_kernel(forward, cpu, dtype_of<W>, &softmax_16_bits<W, kLog>);
    backend::register_kernel(gradient, cpu, dtype_of<W>, &softmax_grad_16_bits<W, kLog>);
    if constexpr (kInRegisters<W>) {
      backend::register_row_link(forward, dtype_of<W>, &narrow_softmax_link<W, kLog>);
      backend::register_row_link(gradient, dtype_of<W>, &narrow_softmax_grad_link<W, kLog>);
    }
  });
}

void register_softmax() {
  constexpr auto kAllAxesButLast = [](const Tensor& x, const Tensor&) { return x.rank() - 1; };
  register_both<false>("softmax", "softmax_grad");
  register_both<true>("log_softmax", "log_softmax_grad");
  register_floats_by_rows<&logsumexp<float>, &logsumexp<double>, kAllAxesButLast, 0, 1>(
      "logsumexp");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_softmax);
#endif
