#include "command/compressed_layers.h"

#include <brim/compress/prune.h>
#include <brim/compress/quantize.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"

namespace brim::command {

int64_t pruned_vector(const train::Recipe& recipe) {
  if (!recipe.prune.has_masks()) return 0;
  const compress::Pattern pattern = compress::parse_pattern(recipe.prune.pattern);
  return pattern.kind == compress::Pattern::Kind::vector ? pattern.length : 0;
}

std::string use_sparse_layers(nn::Module& network, const train::Recipe& recipe) {
  const int64_t vector = pruned_vector(recipe);
  if (vector == 0) return "";
  const std::vector<compress::EncodedLayer> layers = compress::encode(network, vector);
  const auto encoded = std::ranges::count_if(layers, &compress::EncodedLayer::encoded);
  return fmt::format("{} of {} layers have columns of zeros: sparse where that is faster", encoded,
                     layers.size());
}

std::string use_int8_layers(nn::Module& network, const train::WeightsFile& file) {
  const compress::Int8Layers int8 = file.int8_layers();
  if (int8.empty()) return "";
  try {
    const size_t count = compress::use_int8(network, int8);
    if (count == 0) return "layers in 8-bit integers compute in f32 on this device";
    const auto sparse =
        std::ranges::count_if(int8, [](const auto& named) { return named.second.is_sparse(); });
    return fmt::format(
        "{} layers compute in 8-bit integers{}", count,
        sparse == 0 ? "" : fmt::format(", {} of them without their columns of zeros", sparse));
  } catch (const ValueError& e) {
    raise<FileError>("[weights] {} does not fit the network: {}", file.path(), e.what());
  }
}

std::string use_compressed_layers(nn::Module& network, const train::Recipe& recipe,
                                  const train::WeightsFile& file) {
  const std::string sparse = use_sparse_layers(network, recipe);
  const std::string int8 = use_int8_layers(network, file);  // in place of these
  return int8.empty() ? sparse : int8;
}

}  // namespace brim::command
