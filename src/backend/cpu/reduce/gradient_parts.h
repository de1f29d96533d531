// How gradients of parameters that all rows share are summed: in parts, of which each thread takes
// some.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <brim/formula/dense.h>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {

/// Rows of n columns in parts, whose number the shape fixes, each with f64 sums of its own: an
/// array of n for each parameter.
struct GradientParts {
  int64_t rows, n, parameters, count;

  GradientParts(int64_t rows, int64_t n, int64_t parameters)
      : rows(rows), n(n), parameters(parameters), count(std::clamp<int64_t>(rows / 32, 1, 16)) {}
  size_t sum_bytes() const {
    return static_cast<size_t>(parameters * count * n + 1) * sizeof(double);
  }
  /// body(part, first row, last row)
  template <class Body>
  void each(const Body& body) const {
    const int64_t grain =
        std::max<int64_t>(1, kElementwiseGrain * count / std::max<int64_t>(rows * n, 1));
    parallel_for(count, grain, [&](int64_t part, int64_t end) {
      for (; part < end; ++part) body(part, rows * part / count, rows * (part + 1) / count);
    });
  }
  /// The gradient of each parameter; the first part's sums become those of all.
  template <class... To>
  void add_up(double* sums, To*... gradients) const {
    const int64_t all = parameters * n;
    for (int64_t part = 1; part < count; ++part)
      for (int64_t i = 0; i < all; ++i) sums[i] += sums[part * all + i];
    (write(gradients, std::exchange(sums, sums + n)), ...);
  }

 private:
  template <class To>
  void write(To* gradient, const double* sums) const {
    for (int64_t i = 0; i < n; ++i)
      gradient[i] = static_cast<To>(static_cast<formula::Arithmetic<To>>(sums[i]));
  }
};

}  // namespace brim::cpu
