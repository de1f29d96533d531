// Which columns the groups of a sparse weight keep (see brim/ops/sparse.h).
#pragma once

#include <brim/core/tensor.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/runtime/elements.h"
#include "core/check.h"

namespace brim::cpu {

struct SparseIndex {
  const int32_t* columns;
  const int32_t* starts;
  const int32_t* outputs;  // at each position; null: in order
  int64_t groups, vector, kept, count;

  /// `outputs_count`: of the weight.
  SparseIndex(const Tensor& c, const Tensor& s, const Tensor& o, int64_t length,
              int64_t outputs_count)
      : columns(in<int32_t>(c)),
        starts(in<int32_t>(s)),
        outputs(in<int32_t>(o)),
        groups(s.numel() - 1),
        vector(length),
        kept(c.defined() ? c.numel() : 0),
        count(outputs_count) {}

  /// Numbers may come from anywhere, and are positions in memory.
  void check(int64_t width) const {
    bool is_right = starts[0] == 0 && starts[groups] == kept;
    for (int64_t g = 0; g < groups; ++g) is_right &= starts[g] <= starts[g + 1];
    uint32_t signs = 0;  // of columns, and of what is left to the last one: whole vectors of them
    for (int64_t j = 0; j < kept; ++j) {
      const auto column = static_cast<uint32_t>(columns[j]);
      signs |= column | (static_cast<uint32_t>(width - 1) - column);
    }
    is_right &= signs >> 31 == 0;
    for (int64_t o = 0; outputs && o < count; ++o)
      is_right &= outputs[o] >= 0 && outputs[o] < count;
    BRIM_CHECK(is_right, ValueError,
               "[sparse] starts, columns or outputs lie outside of a weight of {} columns", width);
  }
  int64_t output(int64_t position) const { return outputs ? outputs[position] : position; }
  int64_t kept_of(int64_t g) const { return starts[g + 1] - starts[g]; }
  /// How many of a group's outputs there are, and which.
  int64_t used_of(int64_t g) const { return std::min(vector, count - g * vector); }
  const int32_t* order_of(int64_t g) const { return outputs ? outputs + g * vector : nullptr; }
  /// Multiply-adds of a group for one row or position, on average.
  int64_t work() const { return kept * vector / std::max<int64_t>(groups, 1); }
};

}  // namespace brim::cpu
