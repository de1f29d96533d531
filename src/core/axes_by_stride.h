// The order in which a tensor's axes lie in memory.
#pragma once

#include <array>
#include <cstddef>

#include <brim/core/tensor.h>

namespace brim {

/// The axes from the outermost in memory on: the larger stride first, equal ones in their order.
/// As many entries as the tensor has axes count.
inline std::array<int, kMaxRank> axes_by_stride(const Tensor& t) {
  std::array<int, kMaxRank> order{};
  for (int axis = 0; axis < t.rank(); ++axis) {
    auto at = static_cast<size_t>(axis);
    for (; at > 0 && t.strides()[order[at - 1]] < t.strides()[axis]; --at)
      order[at] = order[at - 1];
    order[at] = axis;
  }
  return order;
}

}  // namespace brim
