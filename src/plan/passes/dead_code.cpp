// Leaves out launches whose results nobody reads.
#include <fmt/core.h>

#include "plan/pass.h"

namespace brim::plan {

std::string dead_code(Program& program) {
  int dropped = 0;
  for (bool changed = true; changed;) {
    changed = false;
    const Uses uses(program);
    for (auto& launch : program.launches) {
      bool wanted = static_cast<bool>(launch->refresh) || static_cast<bool>(launch->commit);
      for (const Operand& o : launch->operands())
        if (o.writes && o.tensor->defined())
          wanted |= !program.temporary(*o.tensor) || !uses.readers(*o.tensor).empty() ||
                    uses.writers(*o.tensor).size() > 1;
      if (wanted) continue;
      launch = nullptr;
      changed = true;
      ++dropped;
      break;  // Uses is stale now
    }
    program.compact();
  }
  return dropped ? fmt::format("dropped {} launches whose results nobody reads", dropped) : "";
}

}  // namespace brim::plan
