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

/// Calls row(offsets, count) for innermost runs that cover the loop, in parallel above `grain`
/// elements. Strides of a run are loop.stride[k][0].
template <int N, class Row>
void for_each_row(const Loop<N>& loop, int64_t grain, const Row& row) {
  parallel_for(loop.numel, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t inner = begin % loop.size[0];
      const int64_t count = std::min(loop.size[0] - inner, end - begin);
      row(loop.offsets(begin), count);
      begin += count;
    }
  });
}

/// Elements below which an elementwise kernel stays in one thread: about 10 us of work.
inline constexpr int64_t kElementwiseGrain = 32768;

}  // namespace brim::cpu
