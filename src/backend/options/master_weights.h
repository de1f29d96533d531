// Optimizer steps of 16-bit weights that have masters in f32.
#pragma once

#include <string>

namespace brim::backend {

/// "sgd_with_masters", "adam_with_masters", ..., for f16 and bf16: the step of that name for
/// parameters and gradients of 16 bits and states of f32, the last of which is the master. The step
/// updates the master, and the parameter is its value rounded to nearest even. A master that does
/// not round to its parameter (one that is new, or whose parameter has been written since) begins
/// with the parameter's value.
inline std::string master_step_name(const char* step) {
  return std::string(step) + "_with_masters";
}

}  // namespace brim::backend
