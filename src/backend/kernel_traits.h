// What is known of a kernel apart from its functions. An op declares it beside its launch, a fused
// kernel beside the ops that it stands for; plans ask for it and know no kernel by name or number.
#pragma once

#include <cstdint>
#include <string>

namespace brim::backend {

/// How the elements of outputs depend on those of inputs.
enum class Work : uint8_t {
  other,
  pointwise,  ///< on those of the same index; sizes of 1 are broadcast
  copy,       ///< as pointwise, and unchanged but for dtype and strides
  reduction   ///< on all along some axes
};

/// As written in a declaration: `{.operands = "x, weight, rw running_mean, y"}`.
struct KernelTraits {
  /// The tensors in the order of the arguments, a span of them under one name. Whether they are
  /// written stands in the signature; "rw" marks written ones that are read as well.
  const char* operands = "";
  Work work = Work::other;
  /// Operands of rank 4 that lie in one memory format, nchw or nhwc, whichever a plan chooses.
  const char* activations = "";
};

/// One name among the operands.
struct OperandTraits {
  std::string name;
  bool reads = false, writes = false;
  bool activation = false;
  friend bool operator==(const OperandTraits&, const OperandTraits&) = default;
};

}  // namespace brim::backend
