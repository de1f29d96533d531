// The instruction set of the CPU's kernels. Each kernel is compiled for several; the best that the
// CPU has is taken, or the one that BRIM_CPU_ISA names. oneDNN is held to the same.
#pragma once

#include <string>
#include <vector>

namespace brim::cpu {

/// Those that this build was compiled for and this CPU has, best first: "avx512", "avx2", "sse4",
/// "scalar" on x86-64. The last is the least, which every CPU has: BRIM_CPU_ISA takes "baseline"
/// for it, whose own name depends on the CPU's kind and on the version of Highway ("sse2", "neon").
const std::vector<std::string>& available_isas();

/// The one in use.
const std::string& isa();

/// What the last bits of results depend on: isa(), with "+bf16" behind it where products of bf16
/// are the CPU's own and some may be multiplied.
std::string arithmetic(bool with_bf16 = true);

/// What is wrong with BRIM_CPU_ISA, as a line with the cure; empty where nothing is.
const std::string& isa_error();

/// Throws isa_error() as ValueError where there is one.
void check_isa();

}  // namespace brim::cpu

/// Has register_function() of that instruction set register its kernels; where a file is compiled
/// once (HWY_ONCE).
#define BRIM_REGISTER_FOR_CPU(register_function)                                    \
  namespace brim::cpu {                                                             \
  HWY_EXPORT(register_function);                                                    \
  static const bool registered = (HWY_DYNAMIC_DISPATCH(register_function)(), true); \
  }                                                                                 \
  static_assert(true, "for the semicolon")
