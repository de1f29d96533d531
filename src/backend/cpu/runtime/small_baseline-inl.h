// <hwy/highway.h> for kernels whose baseline, which only CPUs without AVX2 run, is compiled for
// size: its loops are vectorised as ever, but not unrolled, unswitched or cloned. That changes no
// results: without fused multiply-adds, each operation rounds by itself. Not for products and
// convolutions, whose tiles of sums would lie in memory if their loops were not unrolled, nor for
// the exponentials of softmax. For each instruction set anew, so without #pragma once.
#include <hwy/highway.h>

#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86 && HWY_TARGET == HWY_STATIC_TARGET && \
    !defined(HWY_COMPILE_ONLY_STATIC)
#undef HWY_BEFORE_NAMESPACE
#undef HWY_AFTER_NAMESPACE
#define BRIM_SMALL_LOOPS HWY_PRAGMA(GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic"))
#ifdef HWY_TARGET_STR
#define HWY_BEFORE_NAMESPACE()        \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR) \
  BRIM_SMALL_LOOPS static_assert(true, "For requiring trailing semicolon")
#else
#define HWY_BEFORE_NAMESPACE() \
  HWY_PRAGMA(GCC push_options) \
  BRIM_SMALL_LOOPS static_assert(true, "For requiring trailing semicolon")
#endif
#define HWY_AFTER_NAMESPACE() \
  HWY_PRAGMA(GCC pop_options) \
  static_assert(true, "For requiring trailing semicolon")
#endif
