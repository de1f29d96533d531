// The calling thread's control register of floating-point arithmetic, as far as denormal numbers
// go.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace brim {

#if defined(__SSE__)
// MXCSR: flush to zero, denormals are zero.
constexpr uint64_t kFlushMode = 0x8040;
inline uint64_t float_mode() { return _mm_getcsr(); }
inline void set_float_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
// FPCR: FZ, for operands and results.
constexpr uint64_t kFlushMode = uint64_t{1} << 24;
inline uint64_t float_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr uint64_t kFlushMode = 0;  // it cannot
inline uint64_t float_mode() { return 0; }
inline void set_float_mode(uint64_t) {}
#endif

}  // namespace brim
