// Memory for the panels of the packed matrix product. It is the process's from the start, so that a
// product allocates nothing, in whichever thread it runs; pages that no product has touched cost
// nothing. (thread_local arrays of this size would be taken off every thread's stack.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace brim::cpu {

/// One thread's panels, held until the end of the scope. Where all are taken, the constructor waits
/// for one; a holder must not ask for a second.
class GemmBuffer {
 public:
  static constexpr int64_t kBytes = int64_t{1664} << 10;
  static constexpr int kCount = 64;  // products that run at the same time

  GemmBuffer();
  ~GemmBuffer();
  GemmBuffer(const GemmBuffer&) = delete;
  GemmBuffer& operator=(const GemmBuffer&) = delete;

  /// Aligned to 64 bytes; what it holds is undefined.
  std::byte* data() const;

 private:
  int index_;
};

}  // namespace brim::cpu
