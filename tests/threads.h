// How many threads a test computes with.
#pragma once

#include <brim/core/threads.h>

namespace brim::tests {

/// Sets the number of threads and restores it.
struct Threads {
  const int before = num_threads();
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
};

}  // namespace brim::tests
