// Convolution with 3 x 3 kernels and stride 1 by Winograd's minimal filtering F(4 x 4, 3 x 3)
// (Lavin and Gray, arXiv:1509.09308): a quarter of the multiplications of the direct sum.
#pragma once

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// 3 x 3, stride 1, no dilation or groups, and enough channels and pixels. It depends on the
/// geometry alone.
bool winograd_wins(ConvPass pass, const backend::ConvGeometry& g);

/// One pass over f32 tensors: activations nhwc, weights row-major. `a` and `b` as in conv_dnnl.
/// Rounding errors are some ten times those of the direct sum (1e-6 of the largest term); an
/// infinity or NaN of the input spreads over the tile of 4 x 4 outputs. The results do not depend
/// on the number of threads.
void conv_winograd(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                   const float* a, const float* b, const ConvEpilogue<float>& epilogue, float* out);

}  // namespace brim::cpu
