// Arithmetic on denormal numbers traps into microcode and is about a hundred times slower. They
// appear where something decays forever: the momentum of a unit that stopped learning.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace brim::cpu {

/// Takes denormals for zero in this thread until the guard's end. Without effect where the
/// processor is not x86.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
#else
  FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned saved_;
#endif
};

}  // namespace brim::cpu
