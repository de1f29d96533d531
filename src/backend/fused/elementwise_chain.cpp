#include "backend/fused/elementwise_chain.h"

#include <map>

namespace brim::backend {
namespace {

std::map<std::string_view, ElementwiseSlot>& slots() {
  static auto* table = new std::map<std::string_view, ElementwiseSlot>;
  return *table;
}

}  // namespace

bool register_elementwise(std::string_view name, int inputs, DType dtype, DenseLoop loop) {
  ElementwiseSlot& slot = slots()[name];
  slot.inputs = inputs;
  slot.loops[static_cast<size_t>(dtype)] = loop;
  return true;
}

const ElementwiseSlot* find_elementwise(std::string_view name, DType dtype) {
  const auto found = slots().find(name);
  if (found == slots().end() || !found->second.loops[static_cast<size_t>(dtype)]) return nullptr;
  return &found->second;
}

}  // namespace brim::backend
