// What layers in f32 and in 8-bit integers share.
#pragma once

#include <vector>

#include "backend/options/geometry.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {

/// Of Conv and ConvTranspose.
std::vector<Attribute> convolution_attributes(const backend::ConvGeometry& geometry);

/// x W^T + b. x: (.., in), weight: (out, in); the bias may be left out.
Value linear_product(OnnxGraph& graph, const Value& x, const Value& weight, const Value& bias);

}  // namespace brim::deploy
