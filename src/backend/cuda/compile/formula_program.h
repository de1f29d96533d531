// The program that NVRTC compiles for a formula: its text, and a kernel that runs it.
#pragma once

#include <string>

#include <brim/core/dtype.h>
#include <brim/extend/elementwise.h>

namespace brim::cuda {

struct DeviceProgram {
  std::string name;  ///< of the op, for the compiler's log
  std::string text;
};

/// The program's kernel, as profilers show it: "formula_softsign_grad". Its parameters: the
/// formula, Walk<inputs + 1>, output, inputs.
std::string formula_kernel_name(const extend::FormulaText& formula);

/// dtype: f32, f64, f16 or bf16.
DeviceProgram formula_program(const extend::FormulaText& formula, DType dtype);

}  // namespace brim::cuda
