// The driver's calls: pages that are handles until they lie in a range of addresses.
#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "backend/cuda/emulation/captures.h"
#include "backend/cuda/emulation/memory.h"

namespace emulation = brim::cuda::emulation;

namespace {

constexpr size_t kGranularity = size_t{2} << 20;

struct Handle {
  size_t bytes = 0;
  int holders = 0;  // who created it, and where it is mapped
};
struct Pages {
  std::mutex mutex;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
  CUmemGenericAllocationHandle last = 0;

  CUresult release(CUmemGenericAllocationHandle handle) {
    const auto at = handles.find(handle);
    if (at == handles.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--at->second.holders == 0) {
      emulation::give_memory(at->second.bytes);
      handles.erase(at);
    }
    return CUDA_SUCCESS;
  }
};
Pages& pages() {
  static auto* all = new Pages;
  return *all;
}
void* pointer(CUdeviceptr data) { return reinterpret_cast<void*>(data); }

/// Calls a function with the begin and the bytes of each mapping in a part of a range; false where
/// they do not fill it.
template <class F>
bool for_each_mapping(CUdeviceptr data, size_t bytes, const F& call) {
  const CUdeviceptr end = data + bytes;
  auto at = pages().mapped.find(data);
  while (data < end) {
    if (at == pages().mapped.end() || at->first != data) return false;
    const size_t length = pages().handles.at(at->second).bytes;
    if (data + length > end) return false;
    call(at++, length);
    data += length;
  }
  return true;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> functions = {
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(cuMemGetAllocationGranularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(cuMemAddressReserve)},
      {"cuMemCreate", reinterpret_cast<void*>(cuMemCreate)},
      {"cuMemRelease", reinterpret_cast<void*>(cuMemRelease)},
      {"cuMemMap", reinterpret_cast<void*>(cuMemMap)},
      {"cuMemUnmap", reinterpret_cast<void*>(cuMemUnmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(cuMemSetAccess)}};
  const auto found = functions.find(name);
  *function = found == functions.end() ? nullptr : found->second;
  *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* data, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
  alignment = std::max(alignment, kGranularity);
  if (bytes == 0 || bytes % kGranularity != 0 || !std::has_single_bit(alignment))
    return CUDA_ERROR_INVALID_VALUE;
  void* const at = mmap(nullptr, bytes + alignment, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *data = (reinterpret_cast<CUdeviceptr>(at) + alignment - 1) / alignment * alignment;
  emulation::add_device_addresses(pointer(*data), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  if (bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (emulation::refused_in_capture() || !emulation::take_memory(bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(pages().mutex);
  *handle = ++pages().last;
  pages().handles[*handle] = {.bytes = bytes, .holders = 1};
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(pages().mutex);
  return pages().release(handle);
}
CUresult cuMemMap(CUdeviceptr data, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  if (emulation::refused_in_capture()) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pages().mutex);
  const auto at = pages().handles.find(handle);
  if (at == pages().handles.end() || at->second.bytes != bytes || offset != 0 ||
      data % kGranularity != 0 || !pages().mapped.emplace(data, handle).second)
    return CUDA_ERROR_INVALID_VALUE;
  ++at->second.holders;
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr data, size_t bytes) {
  if (emulation::refused_in_capture()) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pages().mutex);
  if (!for_each_mapping(data, bytes, [](auto, size_t) {})) return CUDA_ERROR_INVALID_VALUE;
  (void)for_each_mapping(data, bytes, [](auto mapping, size_t length) {
    mprotect(pointer(mapping->first), length, PROT_NONE);
    madvise(pointer(mapping->first), length, MADV_DONTNEED);
    const CUmemGenericAllocationHandle handle = mapping->second;
    pages().mapped.erase(mapping);
    (void)pages().release(handle);
  });
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr data, size_t bytes, const CUmemAccessDesc*, size_t) {
  if (emulation::refused_in_capture()) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pages().mutex);
  if (!for_each_mapping(data, bytes, [](auto, size_t) {})) return CUDA_ERROR_INVALID_VALUE;
  if (mprotect(pointer(data), bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(pointer(data), 0xcd, bytes);  // nobody may rely on zeros
  return CUDA_SUCCESS;
}
}  // extern "C"
