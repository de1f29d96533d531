// The gradient of x where windows lie side by side, which is the transposed convolution that
// enlarges images: each pixel of dy becomes a block of dx, and all of them are one matrix product.
#pragma once

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// Whether the pass is the gradient of x and its windows lie side by side: no two of them share an
/// element of x, and there is nothing between them.
bool conv_blocks_supports(ConvPass pass, const backend::ConvGeometry& g);

/// Row-major weights; dy and dx are both row-major, or both nhwc.
/// conv_blocks_supports(ConvPass::grad_x, g). The results do not depend on the number of threads.
template <class T>
void conv_blocks_grad_x(const Context& context, bool nhwc, const backend::ConvGeometry& g,
                        const T* dy, const T* weight, T* dx);

}  // namespace brim::cpu
