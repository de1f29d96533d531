// See library_versions.h.
#include "core/library_versions.h"

#include <array>
#include <atomic>

namespace brim {
namespace {

using Versions = std::string (*)();
std::array<std::atomic<Versions>, kDeviceKindCount>& backends() {
  static std::array<std::atomic<Versions>, kDeviceKindCount> all{};
  return all;
}

}  // namespace

std::string library_versions(DeviceKind kind) {
  const Versions versions = backends()[static_cast<size_t>(kind)];
  return versions ? versions() : "";
}

bool register_library_versions(DeviceKind kind, Versions versions) {
  backends()[static_cast<size_t>(kind)] = versions;
  return true;
}

}  // namespace brim
