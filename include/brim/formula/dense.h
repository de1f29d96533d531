// Loops over dense elements on the CPU: what a formula is compiled into.
#pragma once

#include <cstdint>
#include <type_traits>

#include <brim/core/dtype.h>
#include <brim/formula/formula.h>

// Operands may be the same memory, element by element; they never overlap in another way.
#if defined(__clang__)
#define BRIM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define BRIM_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace brim::formula {

/// Computes n dense elements on the CPU; operand 0 is the output and may be one of the inputs.
using DenseLoop = void (*)(char* const* operands, int64_t n, const Params& params);

/// What elements of type T are computed in: f32 for 16-bit floats.
template <class T>
using Arithmetic =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

}  // namespace brim::formula
