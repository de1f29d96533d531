// Arithmetic on denormal numbers traps into microcode and is about a hundred times slower. They
// appear where something decays forever: the momentum of a unit that stopped learning.
#pragma once

#include "core/float_mode.h"

namespace brim::cpu {

/// Takes denormals for zero in this thread until the guard's end. Without effect where the
/// processor is neither x86 nor 64-bit ARM.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(float_mode()) { set_float_mode(saved_ | kFlushMode); }
  ~FlushDenormals() { set_float_mode(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace brim::cpu
