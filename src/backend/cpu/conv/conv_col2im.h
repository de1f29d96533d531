// The gradient of x where channels do not come in blocks of 16, as those of images: what each pixel
// of dy adds to its window is a row of a matrix product, and windows are summed.
#pragma once

#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// Whether the pass is the gradient of x and this is its fastest way.
template <class T>
bool conv_col2im_wins(ConvPass pass, bool nhwc, const backend::ConvGeometry& g);

/// Row-major weights; dy and dx are both row-major, or both nhwc; one group. The results do not
/// depend on the number of threads.
template <class T>
void conv_col2im_grad_x(const Context& context, bool nhwc, const backend::ConvGeometry& g,
                        const T* dy, const T* weight, T* dx);

}  // namespace brim::cpu
