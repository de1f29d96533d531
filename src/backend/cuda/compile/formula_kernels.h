// Kernels of formulas that no .cu registers: compiled at their first launch, and loaded for as long
// as the process lives.
#pragma once

#include <brim/core/dtype.h>
#include <brim/extend/elementwise.h>

#include <initializer_list>

#include "core/context.h"

namespace brim::cuda {

/// Compiles and loads where that has not been done yet; may be called while a stream is captured.
/// Returns a cudaKernel_t, as cudaLaunchKernel() takes it. Throws NotImplemented where the formula
/// cannot be compiled, and DeviceError where CUDA refuses the code.
const void* formula_kernel(const Context& context, const extend::FormulaText& formula, DType dtype);

/// For the launch policy.
void run_text(const Context& context, const extend::FormulaText& formula,
              const formula::Params& params, Tensor& y,
              std::initializer_list<const Tensor*> inputs);

}  // namespace brim::cuda
