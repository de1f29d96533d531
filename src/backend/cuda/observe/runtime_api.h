// CUDA's runtime as the watching of devices needs it.
#pragma once

#include <cuda_runtime.h>
#if !defined(CUDART_VERSION)
#include <observed_api.h>  // of the emulation
#endif
