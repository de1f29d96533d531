#include "command/sparse_layers.h"

#include <brim/compress/prune.h>
#include <fmt/format.h>

#include <algorithm>

namespace brim::command {

std::string use_sparse_layers(nn::Module& network, const train::Recipe& recipe) {
  if (recipe.prune.pattern.empty()) return "";
  const compress::Pattern pattern = compress::parse_pattern(recipe.prune.pattern);
  if (pattern.kind != compress::Pattern::Kind::vector) return "";
  const std::vector<compress::EncodedLayer> layers = compress::encode(network, pattern.length);
  const auto encoded = std::ranges::count_if(layers, &compress::EncodedLayer::encoded);
  return fmt::format("{} of {} layers have columns of zeros: sparse where that is faster", encoded,
                     layers.size());
}

}  // namespace brim::command
