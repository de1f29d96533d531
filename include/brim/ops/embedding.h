// Rows of a table by number.
#pragma once

#include <cstdint>
#include <optional>

#include <brim/core/tensor.h>

namespace brim {

/// weight[ids]: ids (any shape) i64 or i32, weight (V, D) -> (..., D). The row `padding_idx` (may
/// count from the end) gets no gradient. On the CPU an id outside [0, V) throws IndexError; other
/// devices do not look. Gradients of any order.
Tensor embedding(const Tensor& ids, const Tensor& weight, std::optional<int64_t> padding_idx = {});

}  // namespace brim
