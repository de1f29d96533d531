// The instruction set of the CPU's kernels. Each kernel is compiled for several; the best that the
// CPU has is taken, or the one that BRIM_CPU_ISA names. oneDNN is held to the same.
#pragma once

#include <string>
#include <vector>

namespace brim::cpu {

/// Those that this build was compiled for and this CPU has, best first: "avx512", "avx2", "sse4",
/// "scalar" on x86-64.
const std::vector<std::string>& available_isas();

/// The one in use.
const std::string& isa();

/// Throws ValueError where BRIM_CPU_ISA names none of available_isas().
void check_isa();

}  // namespace brim::cpu
