// Whether products may be asked for in TF32 (see brim/core/tf32.h): brim's own kernels do not have
// it, so both libraries must be there.
#include "core/tf32.h"

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda {
namespace {

std::string missing(int) {
  const std::string blas = blas_problem(), dnn = dnn_problem();
  return blas.empty() || dnn.empty() ? blas + dnn : blas + ", and " + dnn;
}

const bool registered = register_tf32(DeviceKind::cuda, &missing);

}  // namespace
}  // namespace brim::cuda
