// What is done with each element, or with rows of them.
#pragma once

#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

void apply_unary(Isa isa, const UnaryAttributes& a, int64_t count, const float* x, float* y,
                 const Threads& threads);

/// Two operands over y's dims, with strides of 0 where they are broadcast.
struct BinaryOperands {
  int64_t dims[kMaxRank], strides_a[kMaxRank], strides_b[kMaxRank];
  const float *a, *b;
  float* y;
};
void apply_binary(Isa isa, const BinaryAttributes& a, const BinaryOperands& operands,
                  const Threads& threads);

/// Of rows of `size` numbers.
void softmax_rows(Isa isa, bool logarithm, int64_t rows, int64_t size, const float* x, float* y,
                  const Threads& threads);
/// weight and bias may be null.
void normalize_rows(Isa isa, double epsilon, int64_t rows, int64_t size, const float* x,
                    const float* weight, const float* bias, float* y, const Threads& threads);

/// b (k x n, rows `row` apart) as panels of weights of a convolution.
void pack_panels(Isa isa, int64_t k, int64_t n, const float* b, int64_t row, float* panels,
                 const Threads& threads);

}  // namespace brim::rt
