// Computes the same thing once: of two launches with equal kernels, options and inputs, the second
// goes, and its readers take the first one's result.
#include <fmt/core.h>

#include "plan/pass.h"

namespace brim::plan {
namespace {

/// A launch that only writes temporaries which no other launch writes.
bool pure(const Program& program, const Uses& uses, const Launch& launch) {
  if (launch.refresh || launch.commit || launch.draw) return false;
  for (const Operand& o : launch.operands())
    if (o.writes && o.tensor->defined() &&
        (!program.temporary(*o.tensor) || uses.writer(*o.tensor) < 0))
      return false;
  return true;
}

/// True if nothing that `launch` (at `first`) reads is written up to `second`.
bool inputs_hold(const Uses& uses, const Launch& launch, int first, int second) {
  for (const Operand& o : launch.operands())
    if (!o.writes && o.tensor->defined())
      for (const int w : uses.writers(*o.tensor))
        if (w > first && w < second) return false;
  return true;
}

bool same_inputs(const Launch& a, const Launch& b) {
  if (a.operands().size() != b.operands().size()) return false;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    const Tensor &x = a.operand(i), &y = b.operand(i);
    if (x.defined() != y.defined()) return false;
    if (!x.defined()) continue;
    const bool alike = a.operands()[i].writes
                           ? x.shape() == y.shape() && x.strides() == y.strides() &&
                                 x.offset() == y.offset() && x.dtype() == y.dtype()
                           : same_view(x, y);
    if (!alike) return false;
  }
  return true;
}

void replace_storage(Program& program, const Ref<Storage>& from, const Ref<Storage>& to) {
  for (const auto& launch : program.launches)
    if (launch)
      for (const Operand& o : launch->operands())
        if (o.tensor->defined() && o.tensor->storage() == from) o.tensor->impl()->storage = to;
}

/// Drops one repeated launch; false if there is none.
bool drop_one(Program& program) {
  const Uses uses(program);
  for (size_t first = 0; first < program.launches.size(); ++first) {
    const Launch& a = *program.launches[first];
    if (!pure(program, uses, a)) continue;
    for (size_t second = first + 1; second < program.launches.size(); ++second) {
      const Launch& b = *program.launches[second];
      if (!is(b, a.name()) || !a.same_options(b) || !same_inputs(a, b) || !pure(program, uses, b) ||
          !inputs_hold(uses, a, static_cast<int>(first), static_cast<int>(second)))
        continue;
      const std::unique_ptr<Launch> gone = std::move(program.launches[second]);
      for (size_t i = 0; i < a.operands().size(); ++i)
        if (a.operands()[i].writes && a.operand(i).defined())
          replace_storage(program, gone->operand(i).storage(), a.operand(i).storage());
      program.compact();
      return true;
    }
  }
  return false;
}

}  // namespace

std::string common_subexpressions(Program& program) {
  int dropped = 0;
  while (drop_one(program)) ++dropped;
  return dropped ? fmt::format("dropped {} launches that repeat others", dropped) : "";
}

}  // namespace brim::plan
