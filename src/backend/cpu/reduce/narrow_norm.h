// What clipping gradients of 16-bit floats computes over runs.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>

namespace brim::cpu {

/// Sum of the squares of n numbers.
double square_sum(const Half* x, int64_t n);
double square_sum(const BFloat16* x, int64_t n);

/// x = factor x, rounded to nearest even.
void scale_run(Half* x, float factor, int64_t n);
void scale_run(BFloat16* x, float factor, int64_t n);

}  // namespace brim::cpu
