// What a tensor is put together from, for kernels that copy it.
#pragma once

#include <array>
#include <cstdint>

#include <brim/core/shape.h>

namespace brim::backend {

/// `size` elements along an axis are copies of those of x from `from` on, in this order (step 1),
/// in the other (-1), or all of one (0).
struct Piece {
  int64_t from = 0, size = 0, step = 1;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The pieces of each axis, one behind the other; some may be empty.
struct Pieces {
  std::array<std::array<Piece, 3>, kMaxRank> axes;
  friend bool operator==(const Pieces&, const Pieces&) = default;
};

}  // namespace brim::backend
