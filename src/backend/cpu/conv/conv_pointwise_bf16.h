// Convolutions of single pixels in bf16, which are matrix products, by gemm_bf16.
#pragma once

#include <brim/core/dtype.h>

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// Whether it is a 1x1 kernel that reads every pixel once, without groups, and gemm_bf16
/// multiplies.
bool conv_pointwise_bf16_supports(const backend::ConvGeometry& g);

/// One pass over dense tensors, activations all nhwc or all row-major: `a` and `b` as in conv_dnnl.
/// bias: (o), contiguous, or null. The results do not depend on the number of threads.
void conv_pointwise_bf16(const Context& context, bool nhwc, ConvPass pass,
                         const backend::ConvGeometry& g, const BFloat16* a, const BFloat16* b,
                         const ConvEpilogue<BFloat16>& epilogue, BFloat16* out);

}  // namespace brim::cpu
