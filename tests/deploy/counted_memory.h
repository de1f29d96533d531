// An allocator of the runtime that counts.
#pragma once

#include <brim_rt.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace brim::tests {

/// What a runtime takes of memory, of which `allowed` pieces of `largest` bytes at most are there.
struct CountedMemory {
  std::atomic<int> taken{0};
  std::atomic<size_t> held{0};
  int allowed = 1 << 30;
  size_t largest = size_t{1} << 40;
  brim_rt_allocator allocator() {
    return {[](void* user, size_t bytes, size_t alignment) -> void* {
              auto& self = *static_cast<CountedMemory*>(user);
              if (self.taken >= self.allowed || bytes > self.largest) return nullptr;
              ++self.taken;
              self.held += bytes;
              return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
            },
            [](void* user, void* memory, size_t bytes) {
              static_cast<CountedMemory*>(user)->held -= bytes;
              std::free(memory);
            },
            this};
  }
};

}  // namespace brim::tests
