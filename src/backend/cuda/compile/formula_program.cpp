// See formula_program.h.
#include "backend/cuda/compile/formula_program.h"

#include <fmt/core.h>

#include <string_view>

namespace brim::cuda {
namespace {

const char* type_of(DType dtype) {
  return dtype == f64    ? "double"
         : dtype == f16  ? "brim::Half"
         : dtype == bf16 ? "brim::BFloat16"
                         : "float";
}

/// The preprocessor joins a definition to one line: a line each for its statements, so that the
/// compiler's log shows the one that is meant.
std::string with_lines(std::string_view text) {
  std::string result;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    result += c;
    if (quote) {
      if (c == '\\' && i + 1 < text.size())
        result += text[++i];
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ';' || c == '{') {
      result += '\n';
    }
  }
  return result;
}

}  // namespace

std::string formula_kernel_name(const extend::FormulaText& formula) {
  std::string name = std::string("formula_") + formula.name;
  for (char& c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_plain) c = '_';
  }
  return name;
}

DeviceProgram formula_program(const extend::FormulaText& formula, DType dtype) {
  const char* const type = type_of(dtype);
  std::string parameters, operands;
  for (int i = 0; i < formula.inputs; ++i) {
    parameters += fmt::format(", const {}* x{}", type, i);
    operands += fmt::format(", x{}", i);
  }
  return {formula.name,
          fmt::format(R"(#include <brim/extend/cuda_formula_kernel.h>

namespace brim_formula_text {{
#line 1 "{0}"
{1}
#line 1 "kernel"
extern "C" __global__ void {2}({3} f, brim::extend::cuda::Walk<{4}> walk, {5}* y{6}) {{
  brim::extend::cuda::compute(f, walk, y{7});
}}
}}
)",
                      formula.name, with_lines(formula.text), formula_kernel_name(formula),
                      formula.type, formula.inputs + 1, type, parameters, operands)};
}

}  // namespace brim::cuda
