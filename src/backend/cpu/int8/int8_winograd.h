// Convolutions in 8-bit integers with 3 x 3 kernels and stride 1 by Winograd's F(4 x 4, 3 x 3)
// (Lavin and Gray, arXiv:1509.09308), exactly: the transforms of inputs and of weights, without
// their fractions, fit into 16 bits; the products' sums are 576 times the convolution's at most,
// and computed modulo 2^32, where 9 has an inverse. Of 576 = 9 x 64 the other factor leaves 26 bits
// for the convolution's sums, into which those of most weights fit.
#pragma once

#include <cstdint>

#include "backend/cpu/conv/winograd_tiles.h"
#include "backend/cpu/int8/int8_rows.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cpu {

/// Whether such a convolution is the faster one, with the instruction set in use. `largest`: of all
/// outputs, of the sum of its weights' magnitudes.
bool int8_winograd_wins(const backend::ConvGeometry& g, int64_t largest);

/// x: nhwc; packed: as int8_rows() reads it; y: nhwc, of f32 or u8, or null, by `finish`, which is
/// of all outputs.
void int8_winograd(const Context& context, const uint8_t* x, int32_t zero_point,
                   const int8_t* packed, const backend::ConvGeometry& g, const Int8Finish& finish,
                   void* y);

}  // namespace brim::cpu
