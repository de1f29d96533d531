// Depthwise convolutions over nhwc images: each channel has a kernel of its own, and vectors hold
// neighbouring channels.
#pragma once

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/cpu/conv/conv_epilogue.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// As many groups as channels, and one output of each.
inline bool is_depthwise(const backend::ConvGeometry& g) { return g.groups == g.c && g.c == g.o; }

/// One pass over nhwc activations and row-major weights; is_depthwise(g). `a` and `b` are what it
/// reads: x and weight, dy and weight, or x and dy. The results do not depend on the number of
/// threads.
void conv_depthwise(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                    const float* a, const float* b, const ConvEpilogue<float>& epilogue,
                    float* out);
void conv_depthwise(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                    const double* a, const double* b, const ConvEpilogue<double>& epilogue,
                    double* out);

}  // namespace brim::cpu
