// Which parts of weights pruning leaves out: single elements, or columns that some outputs share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brim::compress {

/// The parts of one layer's weight that are kept or left out as a whole.
struct PruneUnits {
  std::vector<double> means;  ///< of the scores of a unit's elements, (G, K)
  int64_t columns = 1;        ///< K
  int64_t outputs = 0;        ///< of all groups
  int64_t length = 1;         ///< outputs of a group; the last one may have fewer

  /// How many elements a unit has.
  int64_t size_of(size_t unit) const;
};

/// Each element by itself.
PruneUnits element_units(std::span<const float> scores);
/// Scores (O, K) -> vectors: a column for `length` outputs each. `order`: the outputs, those of a
/// group together.
PruneUnits vector_units(std::span<const float> scores, const std::vector<int64_t>& order,
                        int64_t length);

/// A byte for each unit of each layer: 1 where it is left out. Of the elements of all layers
/// together the share `sparsity` goes. Within a layer the least units go. Layers are compared by
/// what a unit has of the squares of its layer's units that are not less than it (LAMP: Lee et al.
/// 2021, "Layer-adaptive sparsity for the magnitude-based pruning"), so that it does not matter how
/// large the weights of a layer are: one whose weights are alike keeps more. Each layer keeps
/// something. The same once more where what was left out has scores of 0.
std::vector<std::vector<uint8_t>> least_units(std::span<const PruneUnits> layers, double sparsity);

}  // namespace brim::compress
