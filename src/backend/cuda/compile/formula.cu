// Launches of kernels that were compiled at run time (formula_kernels.h).
#include <brim/extend/cuda.h>
#include <brim/extend/cuda_walk.h>

#include "backend/cuda/compile/formula_kernels.h"

namespace brim::cuda {
namespace {

template <int N>
void launch_text(const Context& context, const void* kernel, const formula::Params& params,
                 const Tensor* const (&operands)[N]) {
  formula::Params members = params;  // a formula is the first of its bytes
  extend::cuda::Walk<N> walk(operands);
  void* data[N];
  void* args[2 + N] = {&members, &walk};
  for (int i = 0; i < N; ++i) {
    data[i] = const_cast<void*>(static_cast<const void*>(operands[i]->raw()));
    args[2 + i] = &data[i];
  }
  const extend::cuda::Grid grid = extend::cuda::grid_for(walk.numel);
  extend::queue_repeatable(context, [&]() -> int {
    const cudaError_t result = cudaLaunchKernel(kernel, grid.blocks, grid.threads, args,
                                                grid.shared_bytes, extend::cuda::stream(context));
    (void)cudaGetLastError();  // which would report it again
    return result;
  });
}

}  // namespace

void run_text(const Context& context, const extend::FormulaText& formula,
              const formula::Params& params, Tensor& y,
              std::initializer_list<const Tensor*> inputs) {
  if (y.numel() == 0) return;
  const void* const kernel = formula_kernel(context, formula, y.dtype());
  const Tensor* const* const x = inputs.begin();
  if (inputs.size() == 1)
    launch_text(context, kernel, params, {&y, x[0]});
  else
    launch_text(context, kernel, params, {&y, x[0], x[1]});
}

}  // namespace brim::cuda
