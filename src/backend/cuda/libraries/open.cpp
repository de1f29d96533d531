// See open.h.
#include "backend/cuda/libraries/open.h"

#include "core/environment.h"

namespace brim::cuda {

OpenedLibrary open_library(const std::string& soname) { return open_cuda_library(soname); }

int64_t small_work() {
  static const int64_t work = environment_number("BRIM_CUDA_SMALL", int64_t{1} << 15);
  return work;
}

}  // namespace brim::cuda
