// Ops over views: whatever way an input lies in memory, an op gives what it gives for a dense copy
// of it, and so do its gradients. There is one case for every public op with inputs, with inputs of
// every rank that it takes; Views.EveryOpHasACase compares the list with the headers.
#pragma once

#include <vector>

#include "contract/contract.h"

namespace brim::contract {

struct ViewCase {
  const char* op;  ///< as the header declares it
  Function run;
  std::vector<std::vector<Input>> inputs;  ///< situations: the inputs of one call each
};

/// Of elementwise ops, comparisons and losses; reductions and what moves elements; and the rest.
std::vector<ViewCase> elementwise_views();
std::vector<ViewCase> moving_views();
std::vector<ViewCase> layer_views();

/// Ranks that an op of any rank is tried with, and a shape of each.
inline const std::vector<int> kRanks = {0, 1, 2, 3, 4, kMaxRank};
inline Shape shape_of_rank(int rank) {
  constexpr int64_t kSizes[kMaxRank] = {3, 2, 4, 2, 1, 2, 1, 2};
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(kSizes[i]);
  return shape;
}

}  // namespace brim::contract
