#include "data/loader/stand_in.h"

#include <algorithm>

#include "core/check.h"

namespace brim::data {

int64_t find_stand_in(const Dataset& data, const Order& order, int64_t position, int64_t sample,
                      const std::function<bool(int64_t sample)>& reads) {
  constexpr int64_t kMaxTries = 1000;
  const int64_t tries = std::min(order.line_size() - 1, kMaxTries);
  for (int64_t ahead = 1; ahead <= tries; ++ahead) {
    const int64_t next = order.behind(position, sample, ahead);
    if (next != sample && reads(next)) return next;  // a sampler may draw it again
  }
  raise<FileError>(
      "[loader] {} cannot be read, and none of the {} samples behind it can stand in "
      "for it; give other data, or set OnError::raise to see what is wrong",
      data.describe(sample), tries);
}

}  // namespace brim::data
