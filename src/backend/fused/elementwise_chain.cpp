#include "backend/fused/elementwise_chain.h"

#include <map>
#include <mutex>

namespace brim::backend {
namespace {

struct ElementwiseTable {
  std::mutex mutex;
  std::map<std::string_view, ElementwiseSlot> slots;
};
ElementwiseTable& elementwise_table() {
  static auto* table = new ElementwiseTable;
  return *table;
}

}  // namespace

bool register_elementwise(std::string_view name, int inputs, DType dtype, DenseLoop loop) {
  const std::lock_guard lock(elementwise_table().mutex);
  ElementwiseSlot& slot = elementwise_table().slots[name];
  slot.inputs = inputs;
  slot.loops[static_cast<size_t>(dtype)] = loop;
  slot.in_chains[static_cast<size_t>(DeviceKind::cpu)] = true;
  return true;
}

bool register_in_chains(std::string_view name, DeviceKind kind) {
  const std::lock_guard lock(elementwise_table().mutex);
  elementwise_table().slots[name].in_chains[static_cast<size_t>(kind)] = true;
  return true;
}

const ElementwiseSlot* find_elementwise(std::string_view name, DType dtype) {
  const std::lock_guard lock(elementwise_table().mutex);
  const auto found = elementwise_table().slots.find(name);
  if (found == elementwise_table().slots.end() || !found->second.loops[static_cast<size_t>(dtype)])
    return nullptr;
  return &found->second;
}

}  // namespace brim::backend
