// Several devices as text, the inverse of Device::list.
#pragma once

#include <string>
#include <vector>

#include <brim/core/device.h>

namespace brim {

/// "sim:0,sim:1"
inline std::string names_of(const std::vector<Device>& devices) {
  std::string text;
  for (const Device device : devices) text.append(text.empty() ? "" : ",").append(device.str());
  return text;
}

}  // namespace brim
