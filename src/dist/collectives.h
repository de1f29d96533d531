// The collectives as kernels, so that devices queue them and compiled steps hold them.
#pragma once

#include <span>

#include <brim/dist/process_group.h>

#include "backend/kernel.h"

namespace brim::dist {

/// What a collective has besides tensors.
struct CollectiveOptions {
  GroupPtr group;
  Reduce reduce = Reduce::sum;
  int root = 0;               ///< or the other rank
  int64_t virtual_ranks = 0;  ///< of all_reduce
  uint64_t which = 0;         ///< tells apart what has the same shapes
  bool operator==(const CollectiveOptions&) const = default;
};

/// Sums over virtual ranks in the fixed tree (sum_tree.h). `tensors`: for each of this rank's
/// nodes, in order, the same tensors of one dtype. The first node's become the sums of all; the
/// others' are spoilt. `which`: of what, if shapes do not tell: the same in all ranks.
void all_reduce_nodes(ProcessGroup& group, std::span<Tensor> tensors, int64_t virtual_ranks,
                      uint64_t which = 0);

}  // namespace brim::dist
