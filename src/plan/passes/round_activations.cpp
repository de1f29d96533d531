// Tensors that have no room while nothing uses them are kept or moved as bf16, half as many bytes,
// and are f32 again where they are needed. That changes values, so it is done only where it is
// asked for. Which, is chosen together with what is moved and computed again (fit.h), before this.
#include <fmt/core.h>

#include <algorithm>

#include "plan/fit.h"
#include "plan/pass.h"

namespace brim::plan {

std::string round_activations(Program& program) {
  if (!program.may_round || !program.fitted) return "";
  const auto count = [&](Choice choice) {
    return std::ranges::count(program.fitted->tensors, name(choice), &MemoryFit::Tensor::choice);
  };
  const auto kept = count(Choice::keep_bf16), moved = count(Choice::offload_bf16);
  return kept + moved == 0 ? "" : fmt::format("{} tensors kept, {} moved in bf16", kept, moved);
}

}  // namespace brim::plan
