// Which of the runtime's kernels computes a convolution faster here: measured.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "rt/attributes.h"

namespace brim::deploy {

/// x: (n, h, w, c), y: (n, oh, ow, o).
struct ConvolutionSizes {
  int64_t n, h, w, c, oh, ow, o;
  friend auto operator<=>(const ConvolutionSizes&, const ConvolutionSizes&) = default;
};

/// Whether Winograd's algorithm is faster by a tenth. Its weights are four times as large; where
/// they take more than 4 MB it is left out, for the sake of the file, of its start and of caches.
/// False where it cannot compute the convolution. `threads`; 0: one for each core. `others`: bytes
/// of the network's other weights, which have been read since these were.
bool winograd_is_faster(const rt::ConvolutionAttributes& a, const ConvolutionSizes& sizes,
                        int threads, size_t others);

}  // namespace brim::deploy
