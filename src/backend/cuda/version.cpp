// What `brim env` asks the backend, through dlsym.
#include <cuda_runtime_api.h>

/// The version of CUDA's runtime inside this library, such as 13000; 0 in the emulation.
extern "C" int brim_cuda_runtime_version();

extern "C" int brim_cuda_runtime_version() {
#ifdef CUDART_VERSION
  return CUDART_VERSION;
#else
  return 0;
#endif
}
