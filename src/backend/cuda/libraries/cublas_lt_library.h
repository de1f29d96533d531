// The functions of cuBLASLt that brim calls, looked up at run time, and what each answer means.
#pragma once

#include <cublasLt.h>
#include <fmt/core.h>

#include <memory>
#include <string>

#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime/dynamic_library.h"
#include "backend/cuda/runtime/failure.h"
#include "core/check.h"

namespace brim::cuda::blas {

inline const std::string kSoname = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);

struct Library : DynamicLibrary {
  Library()
      : DynamicLibrary("cuBLASLt", kSoname, open_library(kSoname),
                       "install the CUDA 13 toolkit, or pip install nvidia-cublas, or name its "
                       "folder in BRIM_CUDA_LIBRARIES") {
    if (problem().empty() && version() / 10000 != CUBLAS_VER_MAJOR)
      reject(fmt::format("is of version {}, and {} is needed", version(), CUBLAS_VER_MAJOR));
  }
  decltype(&cublasLtGetVersion) version = find("cublasLtGetVersion");
  decltype(&cublasLtGetStatusString) status_string = find("cublasLtGetStatusString");
  decltype(&cublasLtCreate) create = find("cublasLtCreate");
  decltype(&cublasLtMatmul) matmul = find("cublasLtMatmul");
  decltype(&cublasLtMatmulDescCreate) desc_create = find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = find("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout_create = find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = find("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = find("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) preference_create =
      find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy =
      find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = find("cublasLtMatmulAlgoGetHeuristic");
};

inline const Library& library() {
  static const Library lt;
  return lt;
}

/// Throws DeviceError with the call and the status, unless it succeeded.
inline void check(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  raise_if_lost(call);
  raise<DeviceError>("[{}] cuBLASLt: {} failed: {} (status {})", op_name(), call,
                     library().status_string(result), static_cast<int>(result));
}

// Descriptors that go when their owner does.
struct Destroy {
  void operator()(cublasLtMatmulDescOpaque_t* d) const { (void)library().desc_destroy(d); }
  void operator()(cublasLtMatrixLayoutOpaque_t* d) const { (void)library().layout_destroy(d); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* d) const {
    (void)library().preference_destroy(d);
  }
};
using MatmulDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

}  // namespace brim::cuda::blas
