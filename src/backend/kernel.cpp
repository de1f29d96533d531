#include "backend/kernel.h"

#include <map>
#include <mutex>
#include <string_view>

#include "core/check.h"

namespace brim::backend {

thread_local constinit const char* queued_op = nullptr;
thread_local constinit bool anomaly_mode = false;

KernelSlot& kernel_slot(const char* name, const std::type_info& signature) {
  static auto* slots = new std::map<std::string_view, KernelSlot>;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  KernelSlot& slot = (*slots)[name];
  if (!slot.name) {
    slot.name = name;
    slot.signature = &signature;
  }
  BRIM_CHECK(*slot.signature == signature, Error,
             "[kernel] '{}' is declared with two signatures; op and backend must agree", name);
  return slot;
}

void missing_kernel(const char* name, DeviceKind kind, DType dtype) {
  raise<NotImplemented>(
      "[{}] is not implemented on {} for {}; cast with x.to(...) or choose "
      "another device",
      name, brim::name(kind), brim::name(dtype));
}

}  // namespace brim::backend
