// See open.h.
#include "backend/cuda/libraries/open.h"

#include <cstdlib>

namespace brim::cuda {

OpenedLibrary open_library(const std::string& soname) { return open_cuda_library(soname); }

int64_t small_work() {
  static const char* const given = std::getenv("BRIM_CUDA_SMALL");
  static const int64_t work = given ? std::atoll(given) : int64_t{1} << 15;
  return work;
}

}  // namespace brim::cuda
