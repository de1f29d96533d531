// Layers that compute with the columns that pruning has kept.
#include <brim/compress/prune.h>
#include <brim/ops/sparse.h>

#include "compress/prunable.h"

namespace brim::compress {

std::vector<EncodedLayer> encode(nn::Module& network, int64_t vector) {
  std::vector<EncodedLayer> all;
  for (const Prunable& layer : prunable_layers(network)) {
    EncodedLayer& told = all.emplace_back(EncodedLayer{.name = layer.name});
    const bool has_kernels = layer.weight().device().kind != DeviceKind::cuda;
    if (layer.groups() > 1 || layer.weight().dtype() != f32 || !has_kernels) continue;
    SparseWeight weight = SparseWeight::encode(layer.weight(), vector);
    told.density = weight.density();
    told.bytes = weight.bytes();
    told.encoded = told.density < 1;
    if (!told.encoded) continue;
    if (layer.linear)
      layer.linear->use_sparse(std::move(weight));
    else
      layer.conv->use_sparse(std::move(weight));
  }
  return all;
}

}  // namespace brim::compress
