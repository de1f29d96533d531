// A device profile from anywhere: parsing works, with numbers that can be computed with, or throws
// ValueError.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <brim/core/error.h>

#include "backend/sim/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const brim::sim::DeviceProfile p = brim::sim::parse_profile(text, "fuzz");
    if (p.memory <= 0 || !(p.peak_of(brim::DType::f64) > 0) ||
        !std::isfinite(p.heated(p.ambient, p.peak_power, 1)))
      std::abort();
  } catch (const brim::ValueError&) {
  }
  return 0;
}
