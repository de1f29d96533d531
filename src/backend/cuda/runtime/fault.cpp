#include "backend/cuda/runtime/fault.h"

#include <array>
#include <mutex>
#include <new>

#include "backend/cuda/runtime/runtime.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

/// By device; null where no kernel has asked yet. Never freed: kernels may run until the end.
struct Faults {
  std::mutex mutex;
  std::array<Fault*, 64> of{};
};
Faults& faults() {
  static auto* all = new Faults;
  return *all;
}

[[noreturn]] void throw_fault(const Fault& f) {
  if (f.kind == FaultKind::index)
    raise<IndexError>("[{}] index {} is out of range for axis {} of size {}", f.text, f.value,
                      f.axis, f.size);
  if (f.kind == FaultKind::id)
    raise<IndexError>("[embedding] id {} at position {} is out of range for {} rows", f.value,
                      f.position, f.size);
  if (f.kind == FaultKind::label)
    raise<IndexError>(
        "[{}] label {} at position {} is out of range for {} classes; labels are 0 to {}, or "
        "ignore_index {}",
        f.text, f.value, f.position, f.size, f.size - 1, f.axis);
  raise<ValueError>("[bernoulli] probability {} of element {} is not in [0, 1]", f.number,
                    f.position);
}

}  // namespace

Fault* fault_of(int device) {
  const std::lock_guard lock(faults().mutex);
  Fault*& fault = faults().of.at(static_cast<size_t>(device));
  if (!fault) {
    const DeviceGuard guard(device);
    void* data = nullptr;
    BRIM_CUDA(cudaHostAlloc(&data, sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped));
    fault = new (data) Fault;
  }
  return fault;
}

void rethrow_fault(int device) {
  Fault found;
  {
    const std::lock_guard lock(faults().mutex);
    Fault* fault = faults().of.at(static_cast<size_t>(device));
    if (!fault || fault->kind == FaultKind::none) return;
    found = *fault;
    *fault = Fault();
  }
  throw_fault(found);
}

}  // namespace brim::cuda
