// Which loop of a user's formula goes with the CPU's kernels.
#pragma once

#include <string_view>

#include <brim/extend/elementwise.h>

namespace brim::cpu {

/// Of an instruction set's name (isa.h).
extend::CpuLevel level_of(std::string_view isa);

}  // namespace brim::cpu
