// What the kernels of recurrent layers share, compiled once per instruction set.
//
// Samples of a batch do not depend on each other, so a thread takes its samples through all steps
// and waits for nobody. The weights are packed once a call; all threads read the same ones at every
// step, out of their caches.
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

#include "backend/cpu/gemm/packed_columns-inl.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// The sizes of a sequence of hidden states, (T, N, hidden), and the order of its steps.
struct Recurrence {
  int64_t steps, batch, hidden;
  bool reverse;

  Recurrence(const Tensor& y, bool backwards)
      : steps(y.shape()[0]), batch(y.shape()[1]), hidden(y.shape()[2]), reverse(backwards) {}

  bool empty() const { return steps * batch * hidden == 0; }
  /// Where the i-th step lies.
  int64_t at(int64_t i) const { return reverse ? steps - 1 - i : i; }

  /// Into how many parts over_samples() cuts the batch. `gates`: of a cell.
  int64_t parts(int64_t gates) const {
    constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds of a part at least
    const int64_t tiles = (batch + kRows - 1) / kRows;
    return std::clamp<int64_t>(steps * batch * gates * hidden * hidden / kWork, 1,
                               std::min<int64_t>(tiles, num_threads()));
  }

  /// Calls f(first, last) on disjoint samples that cover the batch, one part a thread: each part
  /// reads all weights at each step.
  template <class F>
  void over_samples(int64_t gates, const F& f) const {
    const int64_t parts = this->parts(gates);
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      const FlushDenormals guard;
      f(batch * begin / parts, batch * end / parts);  // evenly: the slowest part is what it takes
    });
  }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
