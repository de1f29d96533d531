// Convolution in f32 through oneDNN's blocked kernels, for the shapes where they win against
// conv_direct.h: many channels, small planes, strides, 1x1 kernels, weight gradients.
#pragma once

#include "backend/cpu/conv/conv_epilogue.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

enum class ConvPass : uint8_t { forward, grad_x, grad_weight };

#if BRIM_HAVE_DNNL

/// The choice between the two, measured on AVX-512 (the ratios stand in the source). It depends on
/// the geometry alone, so a run repeats itself.
bool dnnl_conv_wins(ConvPass pass, const backend::ConvGeometry& g);

/// One pass over row-major f32 tensors. `a` and `b` are what it reads: x and weight, dy and weight,
/// or x and dy. The results do not depend on the number of threads.
void conv_dnnl(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
               const float* a, const float* b, const ConvEpilogue<float>& epilogue, float* out);

#else

constexpr bool dnnl_conv_wins(ConvPass, const backend::ConvGeometry&) { return false; }
inline void conv_dnnl(const Context&, ConvPass, const backend::ConvGeometry&, const float*,
                      const float*, const ConvEpilogue<float>&, float*) {}

#endif

}  // namespace brim::cpu
