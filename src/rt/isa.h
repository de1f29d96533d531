// The instruction set that a session's kernels are compiled for.
#pragma once

namespace brim::rt {

/// Better ones have larger numbers. `baseline` is what every CPU of the kind has, or what a runtime
/// that was compiled for one instruction set is for.
/// avx512vnni sums up four products of bytes at once; few files are compiled for it.
enum class Isa : int { baseline, sse4, avx2, avx512, avx512vnni };
inline constexpr int kIsas = 5;

const char* name_of(Isa isa);
/// Whether this runtime has kernels for it, and this CPU can run them.
bool is_available(Isa isa);
Isa best_isa();
/// False where there is no such name.
bool parse_isa(const char* name, Isa& isa);

/// One function for each instruction set; null where it was not compiled.
template <class Function>
struct IsaTable {
  Function functions[kIsas];
  Function of(Isa isa) const {
    int i = static_cast<int>(isa);
    while (!functions[i]) --i;
    return functions[i];
  }
};

}  // namespace brim::rt

/// The functions of that name in the namespaces of instruction sets, as a table; where a file is
/// compiled once (HWY_ONCE).
#define BRIM_RT_ISA_TABLE(function)                                                         \
  constexpr IsaTable<decltype(&HWY_STATIC_DISPATCH(function))> function##_table = {         \
      {HWY_CHOOSE_FALLBACK(function), HWY_CHOOSE_SSE4(function), HWY_CHOOSE_AVX2(function), \
       HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX3_DL(function)}}
