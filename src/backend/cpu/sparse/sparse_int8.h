// Products of 8-bit integers with a weight of kept columns (see brim/ops/int8.h). Positions (rows
// of a linear layer's input, pixels of a convolution's output) are in the lanes of vectors: a
// column is a run of u8, one for each position, wherever it begins. The runs of as many columns as
// an instruction multiplies at once are interleaved, once for all outputs of a group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/int8/int8_rows.h"

namespace brim::cpu {

constexpr int64_t kPositions = 64;     // of a block
constexpr int64_t kPositionStep = 16;  // runs are read in steps of so many, beyond their end too

/// A group of outputs.
struct SparseInt8Group {
  const int8_t* weights;   ///< (steps, vector, group) of Int8Layout; 0 beyond `kept` columns
  const int32_t* columns;  ///< those that are kept
  int64_t kept;
  /// Columns from the first one on, a multiple of 4, of whose neighbours (0 and 1, 2 and 3, ..)
  /// both products always fit into an i16 together; and their weights once more: (narrow / 4,
  /// vector, 4).
  int64_t narrow;
  const int8_t* narrow_weights;
  const int64_t* runs;  ///< where the run of each column of the dense weight begins
  int64_t vector;       ///< outputs; a multiple of 4, at most 64
};

/// Bytes that a block needs, aligned to 64.
size_t sparse_int8_scratch(int64_t vector);

/// y: (vector, kPositions) of f32 or u8, of which `count` positions are wanted: those from x on.
/// `finish` is of the group's outputs. Does not depend on how positions are cut into blocks.
void sparse_int8_block(const uint8_t* x, int64_t count, const SparseInt8Group& group,
                       const Int8Finish& finish, void* y, char* scratch);

}  // namespace brim::cpu
