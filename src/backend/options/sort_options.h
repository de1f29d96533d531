// What the sort kernel is asked for.
#pragma once

#include <cstdint>

namespace brim::backend {

/// The first `count` elements of the order along `axis`; NaN is the largest, ties by position.
struct SortOptions {
  int axis;
  int64_t count;
  bool descending = false;
  bool in_order = true;  // false: any order among the first `count`
  friend bool operator==(const SortOptions&, const SortOptions&) = default;
};

}  // namespace brim::backend
