// What libbrim_cuda.so was built with, asked through dlsym. Whether it belongs to this libbrim is
// not asked: it needs the symbol BRIM_CUDA_INTERFACE, whose name holds brim's version and a hash of
// the headers that both are compiled with (CMakeLists.txt). The dynamic linker finds it only in the
// libbrim of the same sources, so a backend of another one does not open, before any of it runs.
#pragma once

namespace brim {

struct CudaBuild {
  int runtime = 0;     ///< the version of CUDA's runtime inside, such as 13000; 0 in the emulation
  bool cudnn = false;  ///< whether cudnn.h was there: else convolutions are brim's own
  bool cupti = false;  ///< whether cupti.h was there: else traces show ops instead of kernels
  bool nccl = false;   ///< whether nccl.h was there: else ranks have no collectives on GPUs
  /// What it has kernels for, as CMake has it: "75,86,90"; "" where that is not known.
  const char* architectures = "";
  /// 75 for 7.5; 0 where CUDA does not tell.
  int (*compute_capability)(int device) = nullptr;
};

}  // namespace brim

extern "C" const brim::CudaBuild* brim_cuda_build();
