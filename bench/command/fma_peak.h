// The most that this machine's vector units do: fused multiply-adds on registers alone.
#pragma once

#include <string>

namespace brim::command {

/// Billions of floating-point operations per second, f32; a fused multiply-add counts as two.
struct FmaPeak {
  double one_thread = 0;
  double all_threads = 0;  ///< of num_threads() together, CPUs permitting
  std::string isa;         ///< that it was measured with
};

/// Measures for about 0.2 s and keeps the fastest moment. Counts CPU time, so other work on the
/// machine matters little.
FmaPeak fma_peak();

}  // namespace brim::command
