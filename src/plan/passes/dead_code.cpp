// Leaves out launches whose results nobody reads.
#include <fmt/core.h>

#include <unordered_map>

#include "plan/pass.h"

namespace brim::plan {

std::string dead_code(Program& program) {
  std::unordered_map<const Storage*, size_t> readers, writers;
  const auto count = [&](const Launch& launch, int step) {
    for (const Operand& o : launch.operands())
      if (o.tensor->defined())
        (o.writes ? writers : readers)[o.tensor->storage().get()] += static_cast<size_t>(step);
  };
  for (const auto& launch : program.launches) count(*launch, 1);
  int dropped = 0;
  for (size_t i = program.launches.size(); i-- > 0;) {  // what goes may free what came before
    Launch& launch = *program.launches[i];
    bool wanted = static_cast<bool>(launch.refresh) || static_cast<bool>(launch.commit);
    for (const Operand& o : launch.operands())
      if (o.writes && o.tensor->defined()) {
        const Storage* storage = o.tensor->storage().get();
        wanted |= !program.temporary(*o.tensor) || readers[storage] > 0 || writers[storage] > 1;
      }
    if (wanted) continue;
    count(launch, -1);
    program.launches[i] = nullptr;
    ++dropped;
  }
  program.compact();
  return dropped ? fmt::format("dropped {} launches whose results nobody reads", dropped) : "";
}

}  // namespace brim::plan
