// Runs elementwise loops (backend/loop.h) over the CPU's threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/runtime/parallel.h"
#include "backend/loop.h"

namespace brim::cpu {

using backend::broadcast_strides;
using backend::Loop;
using backend::make_loop;

/// A position in the iteration space that moves from row to row without divisions.
template <int N>
struct Cursor {
  const Loop<N>& loop;
  std::array<int64_t, kMaxRank> index{};
  std::array<int64_t, N> at{};  // offsets of the operands, in elements

  Cursor(const Loop<N>& l, int64_t linear) : loop(l) {
    for (int d = 0; d < loop.rank; ++d) {
      index[d] = linear % loop.size[d];
      linear /= loop.size[d];
      for (int k = 0; k < N; ++k) at[k] += index[d] * loop.stride[k][d];
    }
  }
  /// Elements left in this row.
  int64_t left() const { return loop.size[0] - index[0]; }
  /// Moves on by n <= left().
  void advance(int64_t n) { move(0, n); }
  /// From the beginning of a row: whole rows of dimension 1 left.
  int64_t rows_left() const { return loop.rank > 1 ? loop.size[1] - index[1] : 1; }
  /// From the beginning of a row: moves on by n <= rows_left() rows.
  void advance_rows(int64_t n) { loop.rank > 1 ? move(1, n) : move(0, loop.size[0]); }

 private:
  void move(int first, int64_t n) {
    index[first] += n;
    for (int k = 0; k < N; ++k) at[k] += n * loop.stride[k][first];
    for (int d = first; d + 1 < loop.rank && index[d] == loop.size[d]; ++d) {
      index[d] = 0;
      ++index[d + 1];
      for (int k = 0; k < N; ++k) at[k] += loop.stride[k][d + 1] - loop.size[d] * loop.stride[k][d];
    }
  }
};

/// Calls row(offsets, count) for innermost runs that cover elements [begin, end) of the loop.
/// Strides of a run are loop.stride[k][0].
template <int N, class Row>
void visit_rows(const Loop<N>& loop, int64_t begin, int64_t end, const Row& row) {
  Cursor<N> cursor(loop, begin);
  while (begin < end) {
    const int64_t size = loop.size[0];
    if (cursor.index[0] > 0 || end - begin < size) {
      const int64_t count = std::min(cursor.left(), end - begin);
      row(cursor.at, count);
      cursor.advance(count);
      begin += count;
      continue;
    }
    const int64_t rows = std::min(cursor.rows_left(), (end - begin) / size);
    std::array<int64_t, N> at = cursor.at;
    for (int64_t r = 0; r < rows; ++r) {
      row(at, size);
      for (int k = 0; k < N; ++k) at[k] += loop.stride[k][1];
    }
    cursor.advance_rows(rows);
    begin += rows * size;
  }
}

/// The same over the whole loop, in parallel above `grain` elements.
template <int N, class Row>
void for_each_row(const Loop<N>& loop, int64_t grain, const Row& row) {
  parallel_for(loop.numel, grain,
               [&](int64_t begin, int64_t end) { visit_rows(loop, begin, end, row); });
}

/// Elements below which an elementwise kernel stays in one thread: about 10 us of work.
inline constexpr int64_t kElementwiseGrain = 32768;

}  // namespace brim::cpu
