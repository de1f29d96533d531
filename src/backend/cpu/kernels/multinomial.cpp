// Categories drawn by weights on the CPU. A row's running sum is taken at the ends of blocks only;
// inside the block that a number falls into, it is added up category by category.
#include <algorithm>

#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

constexpr int64_t kBlockSize = 16;  // categories

template <class T>
double sum_of(const T* x, int64_t n) {
  double part[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) part[k] += static_cast<double>(x[i + k]);
  for (; i < n; ++i) part[0] += static_cast<double>(x[i]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/// The first of n categories with which the running sum, `before` so far, is above `target`; the
/// last one with a weight where sums in another order were.
template <class T>
int64_t first_above(const T* weight, int64_t n, double before, double target) {
  int64_t last = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!(weight[i] > T(0))) continue;
    before += static_cast<double>(weight[i]);
    if (before > target) return i;
    last = i;
  }
  return last;
}

/// y[r, i] = the category of row r into whose share of [0, 1) the number u[r, i] falls.
/// weights: (N, M); u: (N, S) f64.
template <class T>
void multinomial(const Context& context, const Tensor& weights, const Tensor& u, Tensor& y) {
  constexpr int64_t kElements = 16384;  // of a thread at least
  const int64_t rows = weights.size(0), categories = weights.size(1), samples = u.size(1);
  const int64_t blocks = (categories + kBlockSize - 1) / kBlockSize;
  const int64_t grain = kElements / (categories + kBlockSize * samples) + 1;
  const T* const all = static_cast<const T*>(weights.raw());
  const double* const numbers = static_cast<const double*>(u.raw());
  int64_t* const out = static_cast<int64_t*>(y.raw());
  const PartScratch scratch(context, rows, grain, static_cast<size_t>(blocks) * sizeof(double));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    double* const ends = slot.as<double>();
    for (int64_t row = begin; row < end; ++row) {
      const T* const weight = all + row * categories;
      double total = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = b * kBlockSize;
        total += sum_of(weight + first, std::min(kBlockSize, categories - first));
        ends[b] = total;
      }
      for (int64_t i = row * samples; i < (row + 1) * samples; ++i) {
        const double target = numbers[i] * total;  // below the total
        const int64_t b =
            std::min(std::upper_bound(ends, ends + blocks, target) - ends, blocks - 1);
        const int64_t first = b * kBlockSize;
        out[i] = first + first_above(weight + first, std::min(kBlockSize, categories - first),
                                     b > 0 ? ends[b - 1] : 0, target);
      }
    }
  });
}

const bool registered =
    backend::register_kernel("multinomial", DeviceKind::cpu, DType::f32, &multinomial<float>) &&
    backend::register_kernel("multinomial", DeviceKind::cpu, DType::f64, &multinomial<double>);

}  // namespace
}  // namespace brim::cpu
