#include "backend/kernel.h"

#include <map>
#include <mutex>
#include <string_view>

#include "backend/has_kernel.h"
#include "core/check.h"

namespace brim::backend {

thread_local constinit const char* queued_op = nullptr;
constinit CheckWork check_cuda_work = nullptr;
thread_local constinit bool anomaly_mode = false;

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string_view, KernelSlot> slots;
};
Table& table() {
  static auto* all = new Table;
  return *all;
}

}  // namespace

KernelSlot& kernel_slot(const char* name, const std::type_info& signature) {
  const std::lock_guard lock(table().mutex);
  KernelSlot& slot = table().slots[name];
  if (!slot.name) {
    slot.name = name;
    slot.signature = &signature;
  }
  BRIM_CHECK(*slot.signature == signature, Error,
             "[kernel] '{}' is declared with two signatures; op and backend must agree", name);
  return slot;
}

bool has_kernel(std::string_view name, Device device, DType dtype) {
  const DeviceKind kind = device.kind == DeviceKind::sim ? DeviceKind::cpu : device.kind;
  const std::lock_guard lock(table().mutex);
  const auto slot = table().slots.find(name);
  return slot != table().slots.end() &&
         slot->second.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].load(
             std::memory_order_acquire) != nullptr;
}

void missing_kernel(const char* name, DeviceKind kind, DType dtype) {
  BRIM_CHECK(is_computed(dtype), NotImplemented,
             "[{}] {} is stored only: it can be kept, moved and saved, but no op computes with it",
             name, brim::name(dtype));
  raise<NotImplemented>(
      "[{}] is not implemented on {} for {}; cast with x.to(...) or choose "
      "another device",
      name, brim::name(kind), brim::name(dtype));
}

}  // namespace brim::backend
