// A weight with what a pattern leaves out of it.
#pragma once

#include <brim/compress/prune.h>

namespace brim::compress {

/// A copy of `weight` with zeros where its least numbers are, as Masks makes them.
Tensor masked_weight(const Tensor& weight, const Pattern& pattern, double sparsity);

}  // namespace brim::compress
