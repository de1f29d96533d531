// See core/cuda_build.h.
#include "core/cuda_build.h"

#include <cuda_runtime_api.h>

#ifndef BRIM_HAVE_CUDNN
#define BRIM_HAVE_CUDNN 0
#endif
#ifndef BRIM_HAVE_CUPTI
#define BRIM_HAVE_CUPTI 0
#endif
#ifndef BRIM_HAVE_NCCL
#define BRIM_HAVE_NCCL 0
#endif
#ifndef CUDART_VERSION  // of the emulation, which is built for no card
#define CUDART_VERSION 0
#undef BRIM_CUDA_BUILT_FOR
#endif
#ifndef BRIM_CUDA_BUILT_FOR
#define BRIM_CUDA_BUILT_FOR ""
#endif

extern "C" const char BRIM_CUDA_INTERFACE;

namespace {

int capability_of(int device) {
  cudaDeviceProp p{};
  return cudaGetDeviceProperties(&p, device) == cudaSuccess ? 10 * p.major + p.minor : 0;
}

}  // namespace

const brim::CudaBuild* brim_cuda_build() {
  static const char* const volatile needed = &BRIM_CUDA_INTERFACE;
  (void)needed;
  static const brim::CudaBuild build{.runtime = CUDART_VERSION,
                                     .cudnn = BRIM_HAVE_CUDNN != 0,
                                     .cupti = BRIM_HAVE_CUPTI != 0,
                                     .nccl = BRIM_HAVE_NCCL != 0,
                                     .architectures = BRIM_CUDA_BUILT_FOR,
                                     .compute_capability = capability_of};
  return &build;
}
