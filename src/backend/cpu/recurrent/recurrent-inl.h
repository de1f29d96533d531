// What the kernels of recurrent layers share, compiled once per instruction set: the recurrent
// product with packed weights, and the split of the work.
//
// Samples of a batch do not depend on each other, so a thread takes its samples through all steps
// and waits for nobody. The weights are packed once a call into panels as wide as the products'
// register tiles; all threads read the same ones at every step, out of their caches.
#include <algorithm>
#include <cstdint>

#include <brim/core/tensor.h>
#include <brim/core/threads.h>

#if defined(BRIM_BACKEND_CPU_RECURRENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_RECURRENT_INL_H
#undef BRIM_BACKEND_CPU_RECURRENT_INL_H
#else
#define BRIM_BACKEND_CPU_RECURRENT_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm_pack-inl.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/runtime/parallel.h"
#include "core/context.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// A matrix (k x n) as panels of columns, each of them k dense rows.
template <class T>
class PackedWeight {
 public:
  PackedWeight(const Context& context, int64_t k, int64_t n, Matrix<T> from)
      : k_(k),
        n_(n),
        width_(kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))),
        memory_(context.workspace(static_cast<size_t>(panels() * width_ * k) * sizeof(T))) {
    parallel_for(panels(), kPackGrain / (width_ * k + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        pack_b(k_, columns(p), Matrix<T>{from.data + p * width_ * from.col, from.row, from.col},
               panel(p), width_);
    });
  }

  /// c (rows x n, rows `ldc` apart) = a (rows x k) times this, plus what c held if `accumulate`.
  void multiply(int64_t rows, const T* a, int64_t lda, bool accumulate, T* c, int64_t ldc) const {
    for (int64_t p = 0; p < panels(); ++p)
      for (int64_t q = 0; q < k_ || q == 0; q += kDepth)
        broadcast_panel<T>(rows, std::min(kDepth, k_ - q), a + q, kRows * lda, lda, 1,
                           panel(p) + q * width_, width_, accumulate || q > 0, c + p * width_, ldc,
                           columns(p));
  }

 private:
  static constexpr int64_t kDepth =
      1024 / static_cast<int64_t>(sizeof(T));              // stays in the L1 cache
  static constexpr int64_t kPackGrain = int64_t{1} << 16;  // elements

  int64_t panels() const { return (n_ + width_ - 1) / width_; }
  int64_t columns(int64_t p) const { return std::min(width_, n_ - p * width_); }
  T* panel(int64_t p) const { return memory_.as<T>() + p * width_ * k_; }

  int64_t k_, n_, width_;
  Workspace memory_;
};

/// The sizes of a sequence of hidden states, (T, N, hidden), and the order of its steps.
struct Recurrence {
  int64_t steps, batch, hidden;
  bool reverse;

  Recurrence(const Tensor& y, bool backwards)
      : steps(y.shape()[0]), batch(y.shape()[1]), hidden(y.shape()[2]), reverse(backwards) {}

  bool empty() const { return steps * batch * hidden == 0; }
  /// Where the i-th step lies.
  int64_t at(int64_t i) const { return reverse ? steps - 1 - i : i; }

  /// Calls f(first, last) on disjoint samples that cover the batch, one part a thread: each part
  /// reads all weights at each step. `gates`: of a cell.
  template <class F>
  void over_samples(int64_t gates, const F& f) const {
    constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds of a part at least
    const int64_t tiles = (batch + kRows - 1) / kRows;
    const int64_t parts = std::clamp<int64_t>(steps * batch * gates * hidden * hidden / kWork, 1,
                                              std::min<int64_t>(tiles, num_threads()));
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      const FlushDenormals guard;
      f(tiles * begin / parts * kRows, std::min(batch, tiles * end / parts * kRows));
    });
  }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
