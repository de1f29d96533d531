// How kernels report an error, which is deferred to the next wait.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/runtime/fault.h"

namespace brim::cuda {

/// Notes `fault` unless there is one already.
__device__ inline void report(Fault* at, Fault fault) {
  if (atomicCAS(&at->taken, 0, 1) != 0) return;
  fault.taken = 1;
  const FaultKind kind = fault.kind;
  fault.kind = FaultKind::none;
  *at = fault;
  __threadfence_system();  // the host looks at the kind first
  *const_cast<volatile FaultKind*>(&at->kind) = kind;
}

}  // namespace brim::cuda
