// Which outputs of a weight (O, K) stand together in groups that keep the same columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brim::ops {

/// The outputs in an order in which each `vector` of them have zeros in the same columns, as far as
/// such groups are found: 0 .. O-1 where others would keep no less. Groups that pruning has made
/// are found again.
std::vector<int64_t> order_by_zeros(std::span<const float> weight, int64_t outputs, int64_t vector);

}  // namespace brim::ops
