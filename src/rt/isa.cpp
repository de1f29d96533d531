// Which instruction sets the kernels were compiled for, and which of them the CPU has.
#define HWY_WANT_AVX3_DL 1  // some kernels are compiled for it
#include "rt/isa.h"

#include <cstring>

#include <hwy/highway.h>

namespace brim::rt {
namespace {

constexpr const char* kNames[kIsas] = {"baseline", "sse4", "avx2", "avx512", "avx512vnni"};

/// Whether kernels were compiled for more than what the whole runtime was.
constexpr bool is_compiled(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return true;
    case Isa::sse4:
      return (HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_SSE4) != 0;
    case Isa::avx2:
      return (HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX2) != 0;
    case Isa::avx512:
      return (HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX3) != 0;
    case Isa::avx512vnni:
      return (HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX3_DL) != 0;
  }
  return false;
}

#if defined(__x86_64__)
bool has_sse4() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }
bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}
bool has_avx512vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vpopcntdq") &&
         __builtin_cpu_supports("gfni") && __builtin_cpu_supports("vpclmulqdq");
}
bool cpu_has(Isa isa) {
  switch (isa) {
    case Isa::baseline:
#if defined(__AVX512VNNI__)
      if (!__builtin_cpu_supports("avx512vnni")) return false;
#endif
      return HWY_STATIC_TARGET < HWY_AVX3     ? has_avx512vnni()
             : HWY_STATIC_TARGET == HWY_AVX3  ? has_avx512()
             : HWY_STATIC_TARGET == HWY_AVX2  ? has_avx2()
             : HWY_STATIC_TARGET == HWY_SSE4  ? has_sse4()
             : HWY_STATIC_TARGET == HWY_SSSE3 ? __builtin_cpu_supports("ssse3") != 0
                                              : true;  // every x86-64
    case Isa::sse4:
      return has_sse4();
    case Isa::avx2:
      return has_avx2();
    case Isa::avx512:
      return has_avx512();
    case Isa::avx512vnni:
      return has_avx512vnni();
  }
  return false;
}
#else
bool cpu_has(Isa isa) { return isa == Isa::baseline; }
#endif

}  // namespace

const char* name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

bool is_available(Isa isa) { return is_compiled(isa) && cpu_has(isa); }

Isa best_isa() {
  int i = kIsas - 1;
  while (i > 0 && !is_available(static_cast<Isa>(i))) --i;
  return static_cast<Isa>(i);
}

bool parse_isa(const char* name, Isa& isa) {
  for (int i = 0; i < kIsas; ++i)
    if (std::strcmp(name, kNames[i]) == 0) {
      isa = static_cast<Isa>(i);
      return true;
    }
  return false;
}

}  // namespace brim::rt
