// See open.h.
#include "backend/cuda/libraries/open.h"

namespace brim::cuda {

OpenedLibrary open_library(const std::string& soname) { return open_cuda_library(soname); }

int64_t small_work() { return int64_t{1} << 15; }

}  // namespace brim::cuda
