#include "backend/fused/mask_bits.h"

#include <set>
#include <string>
#include <utility>

namespace brim::backend {
namespace {

using Names = std::set<std::pair<std::string, std::string>>;

/// Filled while the program starts, by one thread.
Names& mask_operands() {
  static Names names;
  return names;
}

}  // namespace

const PackMask& pack_mask_kernel() {
  static const PackMask kernel("pack_mask", {.operands = "x, bits"});
  return kernel;
}
const UnpackMask& unpack_mask_kernel() {
  static const UnpackMask kernel("unpack_mask", {.operands = "bits, x"});
  return kernel;
}

bool register_mask_operand(const char* name, const char* operand) {
  mask_operands().emplace(name, operand);
  return true;
}

bool is_mask_operand(const Launch& launch, const Operand& operand) {
  return !operand.writes && mask_operands().contains({launch.name(), launch.traits(operand).name});
}

}  // namespace brim::backend
