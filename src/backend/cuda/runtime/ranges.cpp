// Each page is an allocation of its own, so that any of them can be taken away again.
#include "backend/cuda/runtime/ranges.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <fmt/core.h>
#include "backend/cuda/graph/capture.h"
#include "backend/cuda/runtime/dynamic_library.h"
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
  if (least == 0) return 0;
  const size_t pages = (total + least - 1) / least;
  return least * std::bit_ceil((pages + kMaxPages - 1) / kMaxPages);
}

/// What holds for all ranges of a device.
struct Ranges {
  size_t page = 0;
  std::vector<CUmemAccessDesc> access;
  std::atomic<bool> is_refused = false;  // for another reason than too little memory
};
Ranges& ranges_of(int device) {
  static auto& all = *new std::map<int, Ranges>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  const auto found = all.find(device);
  if (found != all.end()) return found->second;
  Ranges& ranges = all[device];
  ranges.page = page_of(device);
  ranges.access = access_to(device);
  return ranges;
}

/// The device has segments from now on.
void refuse(Ranges& ranges, int device, const char* call, CUresult result) {
  if (ranges.is_refused.exchange(true)) return;
  warn(fmt::format(
      "{} on cuda:{} failed with error {} of the driver; memory comes in segments there, of "
      "which more stays unused (BRIM_CUDA_RANGES=0 asks for that from the beginning)",
      call, device, static_cast<int>(result)));
}

CUdeviceptr address_of(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

/// Each page alone: what was mapped at once is unmapped at once. A page that the driver keeps is
/// lost, as nothing can be mapped there again.
void unmap(void* data, size_t bytes, size_t page) {
  for (size_t at = 0; at < bytes; at += page)
    (void)Driver::get().unmap(address_of(data) + at, page);
}

}  // namespace

size_t range_page(int device) {
  const Ranges& ranges = ranges_of(device);
  return ranges.is_refused ? 0 : ranges.page;
}

void* reserve_range(int device, size_t bytes) {
  const DeviceGuard guard(device);
  Ranges& ranges = ranges_of(device);
  CUdeviceptr data = 0;
  const CUresult result = Driver::get().reserve(&data, bytes, ranges.page, 0, 0);
  if (result == CUDA_SUCCESS) return reinterpret_cast<void*>(data);
  refuse(ranges, device, "cuMemAddressReserve", result);
  return nullptr;
}

bool commit_range(int device, void* data, size_t bytes) {
  const DeviceGuard guard(device);
  const Driver& driver = Driver::get();
  Ranges& ranges = ranges_of(device);
  if (ranges.is_refused) return false;
  const CUmemAllocationProp memory = memory_of(device);
  const char* call = "cuMemCreate";
  CUresult result = CUDA_SUCCESS;
  (void)outside_captures([&] {
    size_t mapped = 0;
    for (; mapped < bytes && result == CUDA_SUCCESS; mapped += ranges.page) {
      CUmemGenericAllocationHandle handle = 0;
      call = "cuMemCreate";
      result = driver.create(&handle, ranges.page, &memory, 0);
      if (result != CUDA_SUCCESS) break;
      call = "cuMemMap";
      result = driver.map(address_of(data) + mapped, ranges.page, 0, handle, 0);
      (void)driver.release(handle);  // the page is what holds it now
      if (result != CUDA_SUCCESS) break;
    }
    if (result == CUDA_SUCCESS) {
      call = "cuMemSetAccess";
      result =
          driver.set_access(address_of(data), bytes, ranges.access.data(), ranges.access.size());
    }
    if (result != CUDA_SUCCESS) unmap(data, mapped, ranges.page);
    return cudaSuccess;
  });
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
    refuse(ranges, device, call, result);
  return result == CUDA_SUCCESS;
}

bool decommit_range(int device, void* data, size_t bytes) noexcept {
  try {
    const NoCapture gate;
    if (!gate) return false;
    const DeviceGuard guard(device);
    for (const cudaStream_t stream : Streams::all().of(device)) {
      if (cudaStreamSynchronize(stream) == cudaSuccess) continue;
      (void)cudaGetLastError();
      return false;
    }
    unmap(data, bytes, ranges_of(device).page);
    return true;
  } catch (const std::exception&) {
    return false;  // the device is lost, and its memory with it
  }
}

}  // namespace brim::cuda
