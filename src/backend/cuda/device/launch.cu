// What a launch has to know of the code that it launches.
#include "backend/cuda/device/launch.cuh"

namespace brim::cuda {
namespace {

__global__ void probe_kernel() { begin_kernel(); }

}  // namespace

// All kernels are compiled for the same architectures. A newer device may run what was compiled for
// an older one.
bool kernels_wait() {
#if defined(__CUDACC__)
  cudaFuncAttributes attributes{};
  BRIM_CUDA(cudaFuncGetAttributes(&attributes, &probe_kernel));
  return attributes.ptxVersion >= 90;
#else
  return (void)&probe_kernel, true;
#endif
}

}  // namespace brim::cuda
