// Two kernels, neither of which packs its operands: `broadcast` (B's rows are contiguous: vectors
// run along n, A's elements are broadcast) and `dot` (A's rows and B's columns are contiguous:
// vectors run along k). For what fits neither, `packed` copies panels of B into the form of the
// first, each thread those that it needs.
#include "backend/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/parallel.h"
#include "core/check.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Register tile of the broadcast kernel: kRows x kVecs accumulators out of 16 or 32 registers.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 6, kVecs = 4;
#else
constexpr int kRows = 4, kVecs = 3;
#endif
constexpr int64_t kDepth = 256;  // of k per pass: a panel of B stays in the L1/L2 cache

// Masked loads and stores of some targets touch the whole vector, which may end in memory that is
// another thread's or nobody's. AVX2 has true ones for our types.
#if HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_AVX2
template <class D, class M, class T>
hn::Vec<D> load_part(D d, M, const T* from, int64_t count) {
  HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)] = {};
  std::copy_n(from, count, part);
  return hn::Load(d, part);
}
template <class D, class M, class T>
void store_part(hn::Vec<D> v, D d, M, T* to, int64_t count) {
  HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, part);
  std::copy_n(part, count, to);
}
#else
template <class D, class M, class T>
HWY_INLINE hn::Vec<D> load_part(D d, M mask, const T* from, int64_t) {
  return hn::MaskedLoad(mask, d, from);
}
template <class D, class M, class T>
HWY_INLINE void store_part(hn::Vec<D> v, D d, M mask, T* to, int64_t) {
  hn::BlendedStore(v, mask, d, to);
}
#endif

/// R rows x V vectors of C; `valid` columns of the last vector are stored.
template <class T, int R, int V>
HWY_INLINE void broadcast_tile(int64_t k, const T* HWY_RESTRICT a, int64_t row, int64_t col,
                               const T* HWY_RESTRICT b, int64_t ldb, bool accumulate,
                               T* HWY_RESTRICT c, int64_t ldc, int64_t columns) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool whole = columns == V * lanes;
  Vec acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) acc[r][v] = hn::Zero(d);
  const int64_t rest = columns - (V - 1) * lanes;
  const auto tail = hn::FirstN(d, static_cast<size_t>(rest));
  for (int64_t p = 0; p < k; ++p, a += col, b += ldb) {
    Vec x[V];
    for (int v = 0; v < V - 1; ++v) x[v] = hn::LoadU(d, b + v * lanes);
    x[V - 1] =
        whole ? hn::LoadU(d, b + (V - 1) * lanes) : load_part(d, tail, b + (V - 1) * lanes, rest);
    for (int r = 0; r < R; ++r) {
      const Vec w = hn::Set(d, a[r * row]);
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(w, x[v], acc[r][v]);
    }
  }
  for (int r = 0; r < R; ++r, c += ldc) {
    for (int v = 0; v < V; ++v) {
      T* to = c + v * lanes;
      if (v < V - 1 || whole) {
        hn::StoreU(accumulate ? hn::Add(acc[r][v], hn::LoadU(d, to)) : acc[r][v], d, to);
      } else {
        const Vec old = accumulate ? load_part(d, tail, to, rest) : hn::Zero(d);
        store_part(hn::Add(acc[r][v], old), d, tail, to, rest);
      }
    }
  }
}

template <class T, int V>
void broadcast_rows(int64_t m, int64_t k, Matrix<T> a, const T* b, int64_t ldb, bool accumulate,
                    T* c, int64_t ldc, int64_t columns) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows)
    broadcast_tile<T, kRows, V>(k, a.data + i * a.row, a.row, a.col, b, ldb, accumulate,
                                c + i * ldc, ldc, columns);
  const T* rest = a.data + i * a.row;
  T* to = c + i * ldc;
  switch (m - i) {
    case 5:
      return broadcast_tile<T, 5, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 4:
      return broadcast_tile<T, 4, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 3:
      return broadcast_tile<T, 3, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 2:
      return broadcast_tile<T, 2, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 1:
      return broadcast_tile<T, 1, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    default:
      return;
  }
}

/// Columns [begin, end) of C; B's rows are contiguous.
template <class T>
void broadcast_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                       bool accumulate, T* c, int64_t ldc) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t p = 0; p < k || p == 0; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    const Matrix<T> part{a.data + p * a.col, a.row, a.col};
    const bool add = accumulate || p > 0;
    for (int64_t j = begin; j < end; j += kVecs * lanes) {
      const int64_t columns = std::min(kVecs * lanes, end - j);
      const T* bj = b.data + p * b.row + j;
      switch ((columns + lanes - 1) / lanes) {
        case 4:
          broadcast_rows<T, 4>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        case 3:
          broadcast_rows<T, 3>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        case 2:
          broadcast_rows<T, 2>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        default:
          broadcast_rows<T, 1>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
      }
    }
  }
}

/// The same for any strides of B.
template <class T>
void packed_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                    bool accumulate, T* c, int64_t ldc) {
  constexpr int64_t kWidth = kVecs * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  HWY_ALIGN T panel[kDepth * kWidth];
  for (int64_t j = begin; j < end; j += kWidth) {
    const int64_t columns = std::min(kWidth, end - j);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      for (int64_t q = 0; q < depth; ++q)
        for (int64_t i = 0; i < columns; ++i)
          panel[q * kWidth + i] = b.data[(p + q) * b.row + (j + i) * b.col];
      broadcast_columns<T>(0, columns, m, depth, {a.data + p * a.col, a.row, a.col},
                           {panel, kWidth, 1}, accumulate || p > 0, c + j, ldc);
    }
  }
}

/// R rows x S columns of C as dot products along contiguous k.
template <class T, int R, int S>
HWY_INLINE void dot_tile(int64_t k, const T* HWY_RESTRICT a, int64_t lda, const T* HWY_RESTRICT b,
                         int64_t ldb, bool accumulate, T* HWY_RESTRICT c, int64_t ldc) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[R][S];
  for (int r = 0; r < R; ++r)
    for (int s = 0; s < S; ++s) acc[r][s] = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= k; p += lanes) {
    Vec x[R];
    for (int r = 0; r < R; ++r) x[r] = hn::LoadU(d, a + r * lda + p);
    for (int s = 0; s < S; ++s) {
      const Vec w = hn::LoadU(d, b + s * ldb + p);
      for (int r = 0; r < R; ++r) acc[r][s] = hn::MulAdd(x[r], w, acc[r][s]);
    }
  }
  if (p < k) {
    const auto tail = hn::FirstN(d, static_cast<size_t>(k - p));
    for (int s = 0; s < S; ++s) {
      const Vec w = load_part(d, tail, b + s * ldb + p, k - p);
      for (int r = 0; r < R; ++r)
        acc[r][s] = hn::MulAdd(load_part(d, tail, a + r * lda + p, k - p), w, acc[r][s]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int s = 0; s < S; ++s) {
      T& to = c[r * ldc + s];
      const T sum = hn::GetLane(hn::SumOfLanes(d, acc[r][s]));
      to = accumulate ? to + sum : sum;
    }
}

template <class T, int R>
void dot_row_block(int64_t begin, int64_t end, int64_t k, const T* a, int64_t lda, const T* b,
                   int64_t ldb, bool accumulate, T* c, int64_t ldc) {
  int64_t j = begin;
  for (; j + 4 <= end; j += 4)
    dot_tile<T, R, 4>(k, a, lda, b + j * ldb, ldb, accumulate, c + j, ldc);
  for (; j < end; ++j) dot_tile<T, R, 1>(k, a, lda, b + j * ldb, ldb, accumulate, c + j, ldc);
}

/// Columns [begin, end) of C; A's rows and B's columns are contiguous.
template <class T>
void dot_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                 bool accumulate, T* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4)
    dot_row_block<T, 4>(begin, end, k, a.data + i * a.row, a.row, b.data, b.col, accumulate,
                        c + i * ldc, ldc);
  for (; i < m; ++i)
    dot_row_block<T, 1>(begin, end, k, a.data + i * a.row, a.row, b.data, b.col, accumulate,
                        c + i * ldc, ldc);
}

void broadcast_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a,
                   Matrix<float> b, bool add, float* c, int64_t ldc) {
  broadcast_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void broadcast_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a,
                   Matrix<double> b, bool add, double* c, int64_t ldc) {
  broadcast_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}
void packed_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a, Matrix<float> b,
                bool add, float* c, int64_t ldc) {
  packed_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a, Matrix<float> b,
             bool add, float* c, int64_t ldc) {
  dot_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void packed_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a,
                Matrix<double> b, bool add, double* c, int64_t ldc) {
  packed_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a, Matrix<double> b,
             bool add, double* c, int64_t ldc) {
  dot_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if BRIM_HAVE_DNNL
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#endif

namespace brim::cpu {
namespace {

HWY_EXPORT(broadcast_f32);
HWY_EXPORT(broadcast_f64);
HWY_EXPORT(packed_f32);
HWY_EXPORT(packed_f64);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f64);

constexpr int64_t kOneDnnWork = int64_t{1} << 20;    // multiply-adds from which oneDNN wins
constexpr int64_t kParallelWork = int64_t{1} << 20;  // multiply-adds per thread
constexpr int64_t kBlock = 64;                       // threads get whole blocks of rows or columns

int64_t ceil_blocks(int64_t length) { return (length + kBlock - 1) / kBlock; }

template <class T>
auto broadcast_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(broadcast_f32);
  else
    return HWY_DYNAMIC_DISPATCH(broadcast_f64);
}
template <class T>
auto packed_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(packed_f32);
  else
    return HWY_DYNAMIC_DISPATCH(packed_f64);
}
template <class T>
auto dot_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(dot_f32);
  else
    return HWY_DYNAMIC_DISPATCH(dot_f64);
}

/// Runs `kernel` over blocks of columns, in parallel where the work is worth it.
template <class T, class Kernel>
void over_columns(Kernel kernel, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b,
                  bool accumulate, T* c, int64_t ldc) {
  const int64_t blocks = ceil_blocks(n);
  const int64_t grain = std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, m * k * kBlock));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    kernel(begin * kBlock, std::min(n, end * kBlock), m, k, a, b, accumulate, c, ldc);
  });
}

#if BRIM_HAVE_DNNL
/// oneDNN's sgemm takes row-major matrices, or their transposes. It runs in one thread per block of
/// rows or columns of ours: its own threads would spin against ours.
bool dnnl_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
               float* c, int64_t ldc) {
  if ((a.col != 1 && a.row != 1) || (b.col != 1 && b.row != 1)) return false;
  const bool ta = a.col != 1, tb = b.col != 1;
  const int64_t lda = ta ? a.col : a.row, ldb = tb ? b.col : b.row;
  if (lda < (ta ? m : k) || ldb < (tb ? k : n)) return false;  // broadcast views
  const bool by_rows = m >= n;
  const int64_t length = by_rows ? m : n, blocks = ceil_blocks(length);
  const int64_t grain =
      std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, m * n * k / blocks));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kBlock, count = std::min(length, end * kBlock) - from;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const dnnl_status_t status = dnnl_sgemm(
        ta ? 'T' : 'N', tb ? 'T' : 'N', by_rows ? count : m, by_rows ? n : count, k, 1.0f,
        a.data + (by_rows ? from * a.row : 0), lda, b.data + (by_rows ? 0 : from * b.col), ldb,
        accumulate ? 1.0f : 0.0f, c + (by_rows ? from * ldc : from), ldc);
    omp_set_num_threads(threads);
    BRIM_CHECK(status == dnnl_success, Error,
               "[matmul] oneDNN failed with status {} on ({}, {}) x ({}, {}); report it as a bug",
               static_cast<int>(status), m, k, k, n);
  });
  return true;
}
#endif

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
          int64_t ldc) {
  if (m == 0 || n == 0) return;
#if BRIM_HAVE_DNNL
  if constexpr (sizeof(T) == 4)
    if (m >= 16 && n >= 16 && m * n * k >= kOneDnnWork &&
        dnnl_gemm(m, n, k, a, b, accumulate, c, ldc))
      return;
#endif
  if (b.row == 1 && a.col == 1 && (b.col != 1 || n == 1))
    return over_columns(dot_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
  if (b.col == 1 || n == 1)
    return over_columns(broadcast_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
  over_columns(packed_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*, int64_t);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*,
                   int64_t);

}  // namespace brim::cpu
#endif
