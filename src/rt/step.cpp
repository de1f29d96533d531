// Ops by their code, which files hold.
#include "rt/step.h"

namespace brim::rt {

const Op* find_op(uint32_t code) {
  for (const Op* const* op = kOps; *op; ++op)
    if (static_cast<uint32_t>((*op)->code) == code) return *op;
  return nullptr;
}

}  // namespace brim::rt
