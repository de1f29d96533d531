// The headers that device code is compiled from at run time, as text. CMake embeds them
// (cmake/EmbedHeaders.cmake), so that what nvcc and NVRTC compile is one source.
#pragma once

#include <span>

namespace brim::cuda {

struct DeviceHeader {
  const char* name;  ///< as in #include <name>
  const char* text;
};
std::span<const DeviceHeader> device_headers();

}  // namespace brim::cuda
