// Networks that were pruned in vectors, or quantised, compute with what they were made into.
#pragma once

#include <brim/nn/module.h>
#include <brim/train/recipe.h>
#include <brim/train/weights.h>

#include <string>

namespace brim::command {

/// "19 of 21 layers have columns of zeros: sparse where that is faster", or nothing where the
/// recipe has not pruned in vectors.
std::string use_sparse_layers(nn::Module& network, const train::Recipe& recipe);

/// Sparse layers, or those in integers that the file has: "9 layers compute in 8-bit
/// integers". Throws FileError where these are not of the network.
std::string use_compressed_layers(nn::Module& network, const train::Recipe& recipe,
                                  const train::WeightsFile& file);

}  // namespace brim::command
