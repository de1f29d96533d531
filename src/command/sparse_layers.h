// Networks that were pruned in vectors compute with what was kept, where that is faster.
#pragma once

#include <brim/nn/module.h>
#include <brim/train/recipe.h>

#include <string>

namespace brim::command {

/// "19 of 21 layers have columns of zeros: sparse where that is faster", or nothing where the
/// recipe has not pruned in vectors.
std::string use_sparse_layers(nn::Module& network, const train::Recipe& recipe);

}  // namespace brim::command
