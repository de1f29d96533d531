#include "backend/cuda/runtime/event_pool.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/runtime/runtime.h"

namespace brim::cuda {
namespace {

constexpr size_t kMaxKept = 1024;  // of a device, timed or not

class Pools {
 public:
  /// Null if there is none.
  cudaEvent_t take(int device, bool timed) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[{device, timed}];
    if (free.empty()) return nullptr;
    const cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  /// Whether there is room for it.
  bool keep(int device, bool timed, cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[{device, timed}];
    if (free.size() >= kMaxKept) return false;
    free.push_back(event);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, bool>, std::vector<cudaEvent_t>> free_;  // by device, and whether timed
};

/// Never destroyed, nor are its events: the driver may be gone before static objects are.
Pools& pools() {
  static auto* const all = new Pools;
  return *all;
}

}  // namespace

PooledEvent::PooledEvent(int device, bool timed)
    : device_(device), timed_(timed), event_(pools().take(device, timed)) {
  if (event_) return;
  const DeviceGuard guard(device);
  BRIM_CUDA(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}

PooledEvent::~PooledEvent() {
  if (!pools().keep(device_, timed_, event_)) (void)cudaEventDestroy(event_);
}

}  // namespace brim::cuda
