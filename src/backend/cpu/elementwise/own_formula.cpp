// The loops of users' own ops on the CPU.
#include <brim/extend/elementwise.h>
#include <brim/extend/parallel.h>

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"

namespace brim::extend {

const std::string& cpu_isa() { return cpu::isa(); }

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
