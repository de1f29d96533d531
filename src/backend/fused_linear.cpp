// When kernels for few rows pay.
#include "backend/fused_linear.h"

namespace brim::backend {

bool few_rows_are_fast(int64_t rows, int64_t inputs, int64_t outputs) {
  constexpr int64_t kMostRows = 64, kMostOutputs = 4096, kMostWork = int64_t{1} << 22;
  return rows <= kMostRows && outputs <= kMostOutputs && rows * inputs * outputs <= kMostWork;
}

bool linear_grad_is_fast(DeviceKind kind, int64_t rows, int64_t inputs, int64_t outputs) {
  return kind != DeviceKind::cuda || few_rows_are_fast(rows, inputs, outputs);
}

}  // namespace brim::backend
