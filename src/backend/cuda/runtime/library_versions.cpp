// The versions of NVIDIA's libraries, which decide how long work takes.
#include "core/library_versions.h"

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda {
namespace {

std::string versions() { return blas_version() + ", " + dnn_version(); }

const bool registered = register_library_versions(DeviceKind::cuda, &versions);

}  // namespace
}  // namespace brim::cuda
