// Convolution over nhwc tensors by gathering: blocks of pixels become rows of all they read, then
// one matrix product. Any kernel, stride and padding; zeros between strided gradients are left out.
#pragma once

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// One group, outputs in blocks of 16 channels, and no stride together with a dilation backwards.
bool conv_nhwc_supports(ConvPass pass, const backend::ConvGeometry& g);

/// Whether copies of row-major activations in nhwc are worth while.
bool conv_nhwc_wins(ConvPass pass, const backend::ConvGeometry& g);

/// One pass over f32 tensors: activations nhwc, weights row-major. `a` and `b` as in conv_dnnl. The
/// results do not depend on the number of threads.
void conv_nhwc(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
               const float* a, const float* b, const ConvEpilogue<float>& epilogue, float* out);

}  // namespace brim::cpu
