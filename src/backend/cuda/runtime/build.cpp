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
#ifndef CUDART_VERSION  // of the emulation
#define CUDART_VERSION 0
#endif

extern "C" const char BRIM_CUDA_INTERFACE;

const brim::CudaBuild* brim_cuda_build() {
  static const char* const volatile needed = &BRIM_CUDA_INTERFACE;
  (void)needed;
  static const brim::CudaBuild build{CUDART_VERSION, BRIM_HAVE_CUDNN != 0, BRIM_HAVE_CUPTI != 0,
                                     BRIM_HAVE_NCCL != 0};
  return &build;
}
