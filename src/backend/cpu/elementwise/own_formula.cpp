// The loops of custom ops on the CPU.
#include "backend/cpu/elementwise/own_formula.h"

#include <brim/extend/parallel.h>

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {

extend::CpuLevel level_of(std::string_view isa) {
  using extend::CpuLevel;
  // Highway calls later kinds of AVX-512 "avx3_zen4", "avx3_spr", "avx10_2" and so on.
  for (const std::string_view name : {"avx512", "avx3", "avx10"})
    if (isa.starts_with(name)) return CpuLevel::avx512;
  return isa.starts_with("avx2") ? CpuLevel::avx2 : CpuLevel::baseline;
}

}  // namespace brim::cpu

namespace brim::extend {

CpuLevel cpu_level() { return cpu::level_of(cpu::isa()); }

void run_dense(formula::DenseLoop loop, const Params& params, Tensor& y, const Tensor& x) {
  cpu::elementwise(loop, params, y, x);
}

void run_dense(formula::DenseLoop loop, const Params& params, Tensor& y, const Tensor& a,
               const Tensor& b) {
  cpu::elementwise(loop, params, y, a, b);
}

void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  cpu::parallel_for(n, grain, body);
}

}  // namespace brim::extend
