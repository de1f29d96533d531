// A product's second operand, packed once for many products or threads that read it; compiled once
// per instruction set.
#include <algorithm>
#include <cstdint>

#include "core/context.h"

#if defined(BRIM_BACKEND_CPU_PACKED_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_PACKED_COLUMNS_INL_H
#undef BRIM_BACKEND_CPU_PACKED_COLUMNS_INL_H
#else
#define BRIM_BACKEND_CPU_PACKED_COLUMNS_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm_pack-inl.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Rows of a product's first operand as its tiles read them: element (i, q) of tile t, which has
/// kRows of them, is data[t * tile + i * row + q * col].
template <class T>
struct TileRows {
  const T* data;
  int64_t tile, row, col;

  static TileRows in_place(const T* a, int64_t lda) { return {a, kRows * lda, lda, 1}; }
  /// As pack_a() leaves rows of k elements.
  static TileRows packed(const T* tiles, int64_t k) { return {tiles, kRows * k, 1, kRows}; }

  /// From the q-th column on.
  TileRows from(int64_t q) const { return {data + q * col, tile, row, col}; }
};

/// A matrix (k x n) as panels of columns as wide as a register tile, each of them k dense rows.
template <class T>
class PackedColumns {
 public:
  PackedColumns(const Context& context, int64_t k, int64_t n, Matrix<T> from)
      : k_(k),
        n_(n),
        width_(kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))),
        memory_(context.workspace(static_cast<size_t>(panels() * width_ * k) * sizeof(T))) {
    parallel_for(panels(), kPackGrain / (width_ * k + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        pack_b(k_, columns(p),
               Matrix<T>{from.data + first_column(p) * from.col, from.row, from.col}, panel(p),
               width_);
    });
  }

  int64_t depth() const { return k_; }
  int64_t size() const { return k_ * n_; }
  int64_t panels() const { return (n_ + width_ - 1) / width_; }
  int64_t first_column(int64_t p) const { return p * width_; }
  int64_t columns(int64_t p) const { return std::min(width_, n_ - p * width_); }

  /// Columns of panel p of c (rows x n, rows `ldc` apart) = a (rows x k) times this, plus what c
  /// held if `accumulate`.
  void multiply(int64_t p, int64_t rows, const TileRows<T>& a, bool accumulate, T* c,
                int64_t ldc) const {
    for (int64_t q = 0; q < k_ || q == 0; q += kDepth)
      multiply_rows(p, q, std::min(kDepth, k_ - q), rows, a.from(q), accumulate || q > 0, c, ldc);
  }
  /// The same by rows [q, q + depth) of this alone, in one pass; a (rows x depth).
  void multiply_rows(int64_t p, int64_t q, int64_t depth, int64_t rows, const TileRows<T>& a,
                     bool accumulate, T* c, int64_t ldc) const {
    broadcast_panel<T>(rows, depth, a.data, a.tile, a.row, a.col, panel(p) + q * width_, width_,
                       accumulate, c + first_column(p), ldc, columns(p));
  }
  /// All columns; a's rows are `lda` apart.
  void multiply(int64_t rows, const T* a, int64_t lda, bool accumulate, T* c, int64_t ldc) const {
    for (int64_t p = 0; p < panels(); ++p)
      multiply(p, rows, TileRows<T>::in_place(a, lda), accumulate, c, ldc);
  }

 private:
  static constexpr int64_t kDepth = kPassBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kPackGrain = int64_t{1} << 16;  // elements

  T* panel(int64_t p) const { return memory_.as<T>() + p * width_ * k_; }

  int64_t k_, n_, width_;
  Workspace memory_;
};

/// c (rows x n, rows `ldc` apart) = a (rows x k) times b (k x n), in parallel over blocks of rows
/// that pass one panel after the other, and over groups of panels where there are few blocks. Calls
/// finish(panel, rows, c's block) where columns are done and still in the L1 cache. For many rows.
template <class T, class F>
void packed_product(const Context& context, int64_t rows, const T* a, int64_t lda,
                    const PackedColumns<T>& b, T* c, int64_t ldc, const F& finish) {
  constexpr int64_t kBlock = 16 * kRows, kWork = int64_t{1} << 18;  // multiply-adds of a part
  const int64_t blocks = (rows + kBlock - 1) / kBlock, panels = b.panels(), k = b.depth();
  const int64_t groups =
      std::clamp<int64_t>(4 * num_threads() / std::max<int64_t>(blocks, 1), 1, panels);
  const int64_t grain = kWork / (kBlock * (b.size() / groups + 1)) + 1;
  const PartScratch scratch(context, blocks * groups, grain,
                            kSmallTiles ? static_cast<size_t>(kBlock * k) * sizeof(T) : 0);
  parallel_for(blocks * groups, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t group = unit % groups, i = unit / groups * kBlock;
      const int64_t count = std::min(kBlock, rows - i);
      TileRows<T> block = TileRows<T>::in_place(a + i * lda, lda);
      if constexpr (kSmallTiles) {
        pack_a(count, k, Matrix<T>{block.data, lda, 1}, slot.as<T>());
        block = TileRows<T>::packed(slot.as<T>(), k);
      }
      for (int64_t p = panels * group / groups; p < panels * (group + 1) / groups; ++p) {
        b.multiply(p, count, block, false, c + i * ldc, ldc);
        finish(p, count, c + i * ldc);
      }
    }
  });
}

/// Whether so many rows are worth a copy of the other operand (k x n).
inline bool packed_product_wins(int64_t rows, int64_t k, int64_t n) {
  return rows >= 64 && k >= 64 && n >= 64;
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
