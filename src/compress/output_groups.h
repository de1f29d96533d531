// Which outputs share vectors (OVW: Tan et al. 2022, section 3.2): those that need the same
// columns, so that little of what matters is left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brim::compress {

/// Which vectors are left out, a byte for each group and column (G, K): those of the least mean
/// scores, until the sparsity is reached. `order`: the outputs, those of a group together.
/// Something is always left. The same once more where what was left out has scores of 0.
std::vector<uint8_t> left_out_vectors(std::span<const float> scores,
                                      const std::vector<int64_t>& order, int64_t vector,
                                      double sparsity);

/// Scores (O, K) of a weight's elements -> its outputs in the order of groups of `vector`. What is
/// kept of the scores at this sparsity is raised by swaps of two outputs, until none helps.
/// Groups that there are already, having zeros in the same columns, stay.
std::vector<int64_t> group_outputs(std::span<const float> scores, int64_t outputs, int64_t vector,
                                   double sparsity);

}  // namespace brim::compress
