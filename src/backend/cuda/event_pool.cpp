#include "backend/cuda/event_pool.h"

#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/runtime.h"

namespace brim::cuda {
namespace {

constexpr size_t kMostKept = 1024;  // of a device

class Pools {
 public:
  /// Null if there is none.
  cudaEvent_t take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[device];
    if (free.empty()) return nullptr;
    const cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  /// Whether there is room for it.
  bool keep(int device, cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[device];
    if (free.size() >= kMostKept) return false;
    free.push_back(event);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaEvent_t>> free_;
};

/// Never destroyed, nor are its events: the driver may be gone before static objects are.
Pools& pools() {
  static auto* const all = new Pools;
  return *all;
}

}  // namespace

PooledEvent::PooledEvent(int device) : device_(device), event_(pools().take(device)) {
  if (event_) return;
  const DeviceGuard guard(device);
  BRIM_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

PooledEvent::~PooledEvent() {
  if (!pools().keep(device_, event_)) (void)cudaEventDestroy(event_);
}

}  // namespace brim::cuda
