// Windows of tokens, widened.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>

namespace brim::data {

/// Of count + 1 tokens, which need not be aligned: the first `count` to x, and the last to y.
/// Throws ValueError for a dtype that tokens do not have.
void widen_window(DType dtype, const uint8_t* tokens, int64_t count, int64_t* x, int64_t* y);

}  // namespace brim::data
