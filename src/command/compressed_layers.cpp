#include "command/compressed_layers.h"

#include <brim/compress/prune.h>
#include <brim/compress/quantize.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"

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

std::string use_compressed_layers(nn::Module& network, const train::Recipe& recipe,
                                  const train::WeightsFile& file) {
  const compress::Int8Layers int8 = file.int8_layers();
  if (int8.empty()) return use_sparse_layers(network, recipe);
  try {
    const size_t count = compress::use_int8(network, int8);
    return count == 0 ? std::string("layers in 8-bit integers compute in f32 on this device")
                      : fmt::format("{} layers compute in 8-bit integers", count);
  } catch (const ValueError& e) {
    raise<FileError>("[weights] {} does not fit the network: {}", file.path(), e.what());
  }
}

}  // namespace brim::command
