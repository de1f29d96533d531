// A formula's machine code: out of the cache, or compiled and kept.
#pragma once

#include <string>

#include "backend/cuda/compile/code_cache.h"
#include "backend/cuda/compile/nvrtc.h"

namespace brim::cuda {

struct FormulaCode {
  std::string bytes;
  bool was_kept;  ///< in the cache
};

/// For GPUs of that compute capability (90 for 9.0). afresh: compiles in any case. Throws
/// NotImplemented where it does not compile, or nothing can compile it.
FormulaCode formula_code(const Nvrtc& nvrtc, CodeCache& cache, const extend::FormulaText& formula,
                         DType dtype, int capability, bool afresh = false);

}  // namespace brim::cuda
