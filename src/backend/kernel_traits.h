// What a kernel's declaration says of its operands, taken apart.
#pragma once

#include <string>

#include <brim/extend/kernel.h>

namespace brim::backend {

using extend::Argument;
using extend::KernelTraits;
using extend::Work;

/// One name among the operands.
struct OperandTraits {
  std::string name;
  bool reads = false, writes = false;
  bool activation = false;
  bool strided = false;
  friend bool operator==(const OperandTraits&, const OperandTraits&) = default;
};

}  // namespace brim::backend
