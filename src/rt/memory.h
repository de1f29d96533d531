// Memory by the program's allocator, or the C library's.
#pragma once

#include <cstddef>
#include <cstdlib>

#include <brim_rt.h>

#include "rt/format.h"

namespace brim::rt {

class Memory {
 public:
  Memory() : of_({&allocate, &release, nullptr}) {}
  explicit Memory(const brim_rt_allocator* allocator) : Memory() {
    if (allocator) of_ = *allocator;
  }

  /// Aligned to kAlignment, of no particular content; null where there is none.
  void* take(size_t bytes) const { return of_.allocate(of_.user, bytes, kAlignment); }
  void give_back(void* memory, size_t bytes) const {
    if (memory) of_.release(of_.user, memory, bytes);
  }

 private:
  static void* allocate(void*, size_t bytes, size_t alignment) {
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return rounded < bytes ? nullptr
                           : std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  }
  static void release(void*, void* memory, size_t) { std::free(memory); }

  brim_rt_allocator of_;
};

}  // namespace brim::rt
