// Memory by the program's allocator, or the C library's.
#pragma once

#include <sys/mman.h>

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
  /// Much of it in huge pages, where the system has them: the first run writes to all of it, and a
  /// fault for each small page takes longer than the system's clearing.
  static void* allocate(void*, size_t bytes, size_t alignment) {
    constexpr size_t kHugePage = size_t{1} << 21, kHalf = kHugePage / 2;
    if (bytes >= kHalf) alignment = kHugePage;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    if (rounded < bytes) return nullptr;
    void* const memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
#ifdef MADV_HUGEPAGE
    if (memory && bytes >= kHalf)  // a hint: failing is harmless
      madvise(memory, (bytes + kHalf) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
    return memory;
  }
  static void release(void*, void* memory, size_t) { std::free(memory); }

  brim_rt_allocator of_;
};

}  // namespace brim::rt
