// Convolution without im2col, for any stride, padding, dilation and groups.
//
// An image is laid out as planes in which every output row continues the one before ("wide": a row
// of output has the width of a padded input row, its last columns are never used). A vector of
// neighbouring outputs then needs, for each tap of the kernel, one vector of neighbouring inputs at
// a fixed offset, whatever the image's width. A stride of s splits rows and columns into s phases.
#pragma once

#include "backend/cpu/conv/conv_epilogue.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// All tensors are row-major. The results do not depend on the number of threads.
/// The gradient of the weight multiplies the unused columns by 0 instead of leaving them out: an
/// infinity at the border of x makes it NaN where the sum over used columns would be finite.
template <class T>
void conv_direct(const Context& context, const T* x, const T* weight,
                 const ConvEpilogue<T>& epilogue, T* y, const backend::ConvGeometry& g);
template <class T>
void conv_direct_grad_x(const Context& context, const T* dy, const T* weight, T* dx,
                        const backend::ConvGeometry& g);
template <class T>
void conv_direct_grad_weight(const Context& context, const T* x, const T* dy, T* dw,
                             const backend::ConvGeometry& g);

}  // namespace brim::cpu
