// See brim/core/tf32.h.
#include "core/tf32.h"

#include <array>
#include <atomic>

#include "core/runtime.h"

namespace brim {
namespace {

thread_local constinit bool tf32_allowed = false;

using Missing = std::string (*)(int device);
std::array<std::atomic<Missing>, kDeviceKindCount>& tf32_backends() {
  static std::array<std::atomic<Missing>, kDeviceKindCount> all{};
  return all;
}

}  // namespace

Tf32::Tf32(bool allow) : before_(tf32_allowed) { tf32_allowed = allow; }
Tf32::~Tf32() { tf32_allowed = before_; }
bool Tf32::allowed() { return tf32_allowed; }

std::string Tf32::missing(Device device) {
  check_available(device);
  const Missing missing = tf32_backends()[static_cast<size_t>(device.kind)];
  return missing ? missing(device.index) : "";
}

bool register_tf32(DeviceKind kind, Missing missing) {
  tf32_backends()[static_cast<size_t>(kind)] = missing;
  return true;
}

}  // namespace brim
