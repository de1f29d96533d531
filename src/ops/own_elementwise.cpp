// Elementwise ops of users' formulas: launch and gradient, without the formula's type.
#include <brim/extend/elementwise.h>
#include <brim/extend/inputs.h>
#include <brim/ops/binary.h>

#include <map>
#include <mutex>

#include "autograd/node.h"
#include "backend/fused/chain.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim::extend {
namespace {

/// The derivative by that input.
const FormulaKernel& slope_of(const FormulaKernel& f, int input) {
  BRIM_CHECK(f.slopes[input], AutogradError,
             "[{}] formulas have first and second derivatives only; write the op with brim's ops "
             "where more are needed",
             f.name);
  return f.slopes[input]();
}

const ops::UnaryKernel& unary_kernel(const FormulaKernel& f) {
  return static_cast<const ops::UnaryKernel&>(*f.kernel);
}
const ops::BinaryKernel& binary_kernel(const FormulaKernel& f) {
  return static_cast<const ops::BinaryKernel&>(*f.kernel);
}

/// Which formulas functions were compiled of.
struct FormulaTypes {
  std::mutex mutex;
  std::map<AnyFunction, const std::type_info*> types;
};
FormulaTypes& formula_types() {
  static auto* const types = new FormulaTypes;
  return *types;
}

/// Whether the name's function there is of that formula.
bool is_of(const char* name, const std::type_info& signature, DeviceKind kind, DType dtype,
           const std::type_info& type) {
  const backend::KernelSlot* const slot = backend::detail::find_slot(name);
  if (!slot || *slot->signature != signature) return false;
  const std::lock_guard lock(formula_types().mutex);
  const auto found = formula_types().types.find(slot->function(kind, dtype));
  return found != formula_types().types.end() && *found->second == type;
}

}  // namespace

void register_formula_function(const char* name, const std::type_info& signature, DeviceKind kind,
                               DType dtype, AnyFunction function, const std::type_info& type) {
  if (is_of(name, signature, kind, dtype, type)) return;
  {
    const std::lock_guard lock(formula_types().mutex);
    formula_types().types.emplace(function, &type);
  }
  register_function(name, signature, kind, dtype, function);
}

FormulaKernel registered(FormulaKernel formula) {
  const bool unary = formula.inputs == 1;
  const std::type_info& signature = unary ? typeid(UnaryFunction) : typeid(BinaryFunction);
  for (const FormulaKernel::Cpu& cpu : formula.cpu) {
    register_formula_function(formula.name, signature, DeviceKind::cpu, cpu.dtype, cpu.kernel,
                              *formula.type);
    const AnyFunction there =
        backend::detail::find_slot(formula.name)->function(DeviceKind::cpu, cpu.dtype);
    if (there == cpu.kernel)
      backend::register_elementwise(formula.name, formula.inputs, cpu.dtype, cpu.loop);
  }
  backend::KernelSlot& slot = backend::kernel_slot(formula.name, signature);
  slot.is_formula = true;
  // A program and its plugins may each have it; the first stays.
  AnyFunction before = nullptr;
  if (formula.of_text) slot.of_text.compare_exchange_strong(before, formula.of_text);
  // For good, as the kernel's functions are.
  if (unary)
    formula.kernel = new ops::UnaryKernel(formula.name);
  else
    formula.kernel = new ops::BinaryKernel(formula.name);
  return formula;
}

void run_text(const Context& context, const FormulaText& text, const Params& params, Tensor& y,
              std::initializer_list<const Tensor*> inputs) {
  backend::launch_policy(context.stream.device.kind).run_text(context, text, params, y, inputs);
}

Tensor elementwise(const FormulaKernel& kernel, const Params& params, const Tensor& x) {
  check_floating(kernel.name, x);
  return autograd::with_grad(
      kernel.name, ops::unary(unary_kernel(kernel), x, params), {x},
      [&kernel, params, x = Saved(x)](GradCall& g) {
        const Tensor tx = g[x];
        if (kernel.gradient && !grad_enabled())
          g.set(0, ops::binary(binary_kernel(kernel.gradient()), kernel.name, g.dy(), tx, params));
        else
          g.set(0, mul(g.dy(), elementwise(slope_of(kernel, 0), params, tx)));
      });
}

Tensor elementwise(const FormulaKernel& kernel, const Params& params, const Tensor& a,
                   const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& ta, const Tensor& tb) { return elementwise(kernel, params, ta, tb); }, a,
        b);
  check_floating(kernel.name, a);
  return autograd::with_grad(
      kernel.name, ops::binary(binary_kernel(kernel), kernel.name, a, b, params), {a, b},
      [&kernel, params, a = Saved(a), b = Saved(b)](GradCall& g) {
        const Tensor inputs[] = {g[a], g[b]};
        for (const int i : {0, 1})
          g.set_if_needed(static_cast<size_t>(i), [&] {
            const Tensor slope = elementwise(slope_of(kernel, i), params, inputs[0], inputs[1]);
            return ops::sum_to(mul(g.dy(), slope), inputs[i].shape());
          });
      });
}

}  // namespace brim::extend
