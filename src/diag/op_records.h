// Where devices whose work is told by records, some time later, tell OpProfiles of it.
#pragma once

#include <cstdint>

#include <brim/core/device.h>

namespace brim::diag {

/// A kernel has run from tick `begin` to tick `end`: a profile counts it if it counted at `begin`.
void op_recorded(Device device, const char* name, uint64_t begin, uint64_t end);

}  // namespace brim::diag
