// Layers in 8-bit integers.
#pragma once

#include "deploy/engine/lowering.h"
#include "rt/attributes.h"

namespace brim::deploy {

/// Steps of a Conv whose EngineNode::input is there.
void int8_convolution(Lowering& to, const EngineNode& node);
/// Of a Gemm or MatMul.
void int8_product(Lowering& to, const EngineNode& node);

/// What makes u8 of a result.
rt::QuantizeAttributes quantize_attributes(QuantParams params);

}  // namespace brim::deploy
