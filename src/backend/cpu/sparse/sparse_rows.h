// Products of rows with a weight of kept columns (see brim/ops/sparse.h). A row is where a linear
// layer's input lies, or the corner of what a convolution's kernel covers: a column is at a fixed
// offset from it, whatever the row.
#pragma once

#include <cstdint>

namespace brim::cpu {

/// A group of outputs.
struct SparseGroup {
  const float* values;     ///< (count, vector)
  const int32_t* offsets;  ///< of each column's element from a row's beginning
  int64_t count;
};

/// What tiles are made of: y(row, output) = bias + sum over columns of x[row + offset] * value.
struct SparseRows {
  const float* x;
  const int64_t* rows;  ///< elements from x
  int64_t count;
  int64_t vector;     ///< outputs of a group
  const float* bias;  ///< `vector` numbers
};

/// y: (count, vector) numbers, rows `ld` apart. Does not depend on how rows are cut into calls.
void sparse_rows(const SparseRows& rows, const SparseGroup& group, float* y, int64_t ld);

}  // namespace brim::cpu
