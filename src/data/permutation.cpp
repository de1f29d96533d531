#include "data/permutation.h"

#include <algorithm>
#include <array>

namespace brim::data {

void Permutation::replace(std::span<int64_t> positions) const {
  constexpr size_t kSide = 64;
  std::array<uint32_t, kSide> at;  // of those that are still beyond n
  std::array<uint64_t, kSide> x;
  for (; !positions.empty(); positions = positions.subspan(std::min(kSide, positions.size()))) {
    size_t left = std::min(kSide, positions.size());
    for (size_t i = 0; i < left; ++i) {
      at[i] = static_cast<uint32_t>(i);
      x[i] = static_cast<uint64_t>(positions[i]);
    }
    while (left > 0) {
      for (size_t i = 0; i < left; ++i) x[i] = encrypt(x[i]);
      // Without branches, whose outcome is random.
      const size_t walked = left;
      left = 0;
      for (size_t i = 0; i < walked; ++i) {
        const uint64_t value = x[i];
        const uint32_t to = at[i];
        positions[to] = static_cast<int64_t>(value);
        x[left] = value;
        at[left] = to;
        left += value >= n_;
      }
    }
  }
}

}  // namespace brim::data
