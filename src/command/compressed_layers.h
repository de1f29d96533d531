// Networks that were pruned in vectors, or quantised, compute with what they were made into.
#pragma once

#include <brim/nn/module.h>
#include <brim/train/recipe.h>
#include <brim/train/weights.h>

#include <string>

namespace brim::command {

/// Outputs that share vectors of zeros; 0 where the recipe has not pruned in vectors.
int64_t pruned_vector(const train::Recipe& recipe);

/// "19 of 21 layers have columns of zeros: sparse where that is faster", or nothing where the
/// recipe has not pruned in vectors.
std::string use_sparse_layers(nn::Module& network, const train::Recipe& recipe);

/// Those layers that the file has in integers: "9 layers compute in 8-bit integers, 5 of them
/// without their columns of zeros", or nothing. Throws FileError where these are not of the
/// network.
std::string use_int8_layers(nn::Module& network, const train::WeightsFile& file);

/// Those, and the others sparse; what there is of them.
std::string use_compressed_layers(nn::Module& network, const train::Recipe& recipe,
                                  const train::WeightsFile& file);

}  // namespace brim::command
