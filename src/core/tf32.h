// How a backend says whether it has TF32.
#pragma once

#include <brim/core/tf32.h>

namespace brim {

/// Backends with TF32 call this when they are loaded; see Tf32::missing.
bool register_tf32(DeviceKind kind, std::string (*missing)(int device));

}  // namespace brim
