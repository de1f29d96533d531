// A plan for those who draw it: its launches, and which temporary lives when.
#include <unordered_map>

#include "plan/plan.h"

namespace brim::plan {

PlanTimeline Plan::timeline() const {
  PlanTimeline timeline{.arena_bytes = static_cast<int64_t>(memory_.bytes)};
  std::unordered_map<const Storage*, const Tensor*> shown;  // the first tensor on each storage
  for (const auto& launch : program_.launches) {
    const diag::OpCall call = launch->op_call();
    timeline.launches.push_back({call.name, call.operations, call.bytes});
    for (const Operand& o : launch->operands())
      if (o.tensor->defined()) shown.try_emplace(o.tensor->storage().get(), o.tensor);
  }
  for (const Block& block : memory_.blocks) {
    const Tensor& tensor = *shown.at(block.storage);
    timeline.temporaries.push_back({.shape = tensor.shape().str(),
                                    .dtype = std::string(name(tensor.dtype())),
                                    .offset = static_cast<int64_t>(block.offset),
                                    .bytes = static_cast<int64_t>(block.bytes),
                                    .first = block.first,
                                    .last = block.last,
                                    .in_place = block.in_place_of >= 0});
  }
  return timeline;
}

}  // namespace brim::plan
