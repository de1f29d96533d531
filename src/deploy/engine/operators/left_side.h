// What a matrix of the file is multiplied with.
#pragma once

#include <vector>

#include "deploy/engine/lowering.h"
#include "deploy/engine/weight_layout.h"

namespace brim::deploy {

/// Input 0 of a product. A flattened image is taken as it lies, and the columns of `weights`,
/// (outputs, inputs), are put into its order.
template <class T>
uint32_t left_side(Lowering& to, const EngineNode& node, std::vector<T>& weights, int64_t outputs) {
  const int image = to.image_of(node.inputs[0]);
  if (image < 0 || !to.is_nhwc(image)) return to.plain(node.inputs[0]);
  const Shape s = to.network.values[static_cast<size_t>(image)].shape;
  weights = channels_last(weights, outputs, s[1], s[2] * s[3]);
  return to.nhwc(image);
}

}  // namespace brim::deploy
