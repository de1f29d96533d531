// On the CPU none of NVIDIA's libraries is there.
#include "backend/cuda/libraries/blas.h"

namespace brim::cuda {

bool blas_product(const Context&, const BlasProduct&) { return false; }

}  // namespace brim::cuda
