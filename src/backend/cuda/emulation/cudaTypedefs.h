// What of CUDA's driver brim calls: memory in ranges of addresses (see cuda_runtime_api.h). Not
// named cuda.h, which CUPTI's headers include and need whole.
#pragma once

#include <cstddef>
#include <cstdint>

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2 };
using CUdeviceptr = uintptr_t;
using CUmemGenericAllocationHandle = unsigned long long;
enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags { CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0 };
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemLocation location;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

extern "C" {
CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* memory,
                                       CUmemAllocationGranularity_flags flags);
CUresult cuMemAddressReserve(CUdeviceptr* data, size_t bytes, size_t alignment, CUdeviceptr at,
                             unsigned long long flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* memory, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr data, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);
/// Only what cuMemMap mapped, and the whole of it.
CUresult cuMemUnmap(CUdeviceptr data, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr data, size_t bytes, const CUmemAccessDesc* access,
                        size_t count);
}  // extern "C"
