// Each page is an allocation of its own, so that any of them can be taken away again.
#include "backend/cuda/runtime/ranges.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>
#include "backend/cuda/graph/capture.h"
#include "backend/cuda/runtime/runtime.h"
#include "backend/cuda/runtime/streams.h"
#include "core/environment.h"

namespace brim::cuda {
namespace {

constexpr size_t kMaxPages = 16384;  // of a device, so that few calls are made for much memory

/// The driver's functions, of which older ones lack some.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  bool is_whole = false;

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

 private:
  Driver() {
    is_whole = find("cuMemGetAllocationGranularity", granularity) &&
               find("cuMemAddressReserve", reserve) && find("cuMemCreate", create) &&
               find("cuMemRelease", release) && find("cuMemMap", map) &&
               find("cuMemUnmap", unmap) && find("cuMemSetAccess", set_access);
  }
  template <class F>
  static bool find(const char* name, F& function) {
    constexpr unsigned kSince = 10020;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion(name, &found, kSince, 0, &result) != cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
    function = reinterpret_cast<F>(found);
    return result == cudaDriverEntryPointSuccess && found;
  }
};

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = device;
  return memory;
}

/// The device itself, and those that reach its memory: cudaDeviceEnablePeerAccess is for memory of
/// cudaMalloc alone.
std::vector<CUmemAccessDesc> access_to(int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = device + 1;
  std::vector<CUmemAccessDesc> all;
  for (int from = 0; from < count; ++from) {
    int can = from == device;
    if (!can && cudaDeviceCanAccessPeer(&can, from, device) != cudaSuccess) can = 0;
    if (!can) continue;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = from;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    all.push_back(access);
  }
  (void)cudaGetLastError();
  return all;
}

size_t page_of(int device) {
  static const bool wanted = environment_number("BRIM_CUDA_RANGES", 1) != 0;
  const Driver& driver = Driver::get();
  if (!wanted || !driver.is_whole) return 0;
  const DeviceGuard guard(device);
  const CUmemAllocationProp memory = memory_of(device);
  size_t least = 0, free = 0, total = 0;
  if (driver.granularity(&least, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
      cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return std::max(least, least * std::bit_ceil(total / kMaxPages / std::max<size_t>(least, 1)));
}

/// What holds for all ranges of a device.
struct Ranges {
  size_t page = 0;
  std::vector<CUmemAccessDesc> access;
};
const Ranges& ranges_of(int device) {
  static auto& all = *new std::map<int, Ranges>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  const auto found = all.find(device);
  if (found != all.end()) return found->second;
  return all.emplace(device, Ranges{page_of(device), access_to(device)}).first->second;
}

CUdeviceptr address_of(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

/// Each page alone: what was mapped at once is unmapped at once.
void unmap(void* data, size_t bytes, size_t page) {
  for (size_t at = 0; at < bytes; at += page)
    (void)Driver::get().unmap(address_of(data) + at, page);
}

}  // namespace

size_t range_page(int device) { return ranges_of(device).page; }

void* reserve_range(int device, size_t bytes) {
  const DeviceGuard guard(device);
  CUdeviceptr data = 0;
  const size_t alignment = range_page(device);
  if (Driver::get().reserve(&data, bytes, alignment, 0, 0) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<void*>(data);
}

bool commit_range(int device, void* data, size_t bytes) {
  const DeviceGuard guard(device);
  const Driver& driver = Driver::get();
  const Ranges& ranges = ranges_of(device);
  const size_t page = ranges.page;
  const CUmemAllocationProp memory = memory_of(device);
  size_t mapped = 0;
  const auto map = [&] {
    for (; mapped < bytes; mapped += page) {
      CUmemGenericAllocationHandle handle = 0;
      if (driver.create(&handle, page, &memory, 0) != CUDA_SUCCESS) return false;
      const CUresult result = driver.map(address_of(data) + mapped, page, 0, handle, 0);
      (void)driver.release(handle);  // the page is what holds it now
      if (result != CUDA_SUCCESS) return false;
    }
    return driver.set_access(address_of(data), bytes, ranges.access.data(), ranges.access.size()) ==
           CUDA_SUCCESS;
  };
  bool is_mapped = false;
  (void)outside_captures([&] {
    is_mapped = map();
    return cudaSuccess;
  });
  if (!is_mapped) unmap(data, mapped, page);
  return is_mapped;
}

void decommit_range(int device, void* data, size_t bytes) noexcept {
  try {
    const DeviceGuard guard(device);
    (void)outside_captures([&] {
      for (const cudaStream_t stream : Streams::all().of(device))
        (void)cudaStreamSynchronize(stream);
      return cudaSuccess;
    });
    unmap(data, bytes, range_page(device));
  } catch (const std::exception&) {
    // The device is lost, and its memory with it.
  }
}

}  // namespace brim::cuda
