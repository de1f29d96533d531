// Chains of elementwise kernels: several in one pass over memory. A link computes a register from
// one or two others; registers hold a run of elements that stays in the fastest cache.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <brim/formula/dense.h>
#include <brim/formula/formula.h>

#include "backend/kernel.h"

namespace brim::backend {

using formula::DenseLoop;

/// An elementwise kernel whose inputs and output have one dtype, and its loop for each of them.
struct ElementwiseSlot {
  int inputs = 0;
  std::array<DenseLoop, kDTypeCount> loops{};
  /// By kind of device, whether its chains know the formula.
  std::array<bool, kDeviceKindCount> in_chains{};
};

/// Tells that `name` is such a kernel, and the CPU's chains know it. It lives as long as the
/// process.
bool register_elementwise(std::string_view name, int inputs, DType dtype, DenseLoop loop);
/// Says the same of the chains of another kind of device.
bool register_in_chains(std::string_view name, DeviceKind kind);
/// Null where `name` is none, or not for this dtype.
const ElementwiseSlot* find_elementwise(std::string_view name, DType dtype);

struct ChainLink {
  const ElementwiseSlot* slot;
  formula::Params params;
  int y, a, b;  ///< registers; b is -1 for functions of one number
  friend bool operator==(const ChainLink&, const ChainLink&) = default;
};

/// Registers are numbered: the inputs, then the outputs, then those inside the chain.
struct Chain {
  static constexpr int kMaxInner = 8;
  static constexpr int kMaxRegisters = 24;

  std::vector<ChainLink> links;
  int inner = 0;  ///< registers inside, at most kMaxInner
  friend bool operator==(const Chain&, const Chain&) = default;
};

/// in: dense in one order, as out, or of a single element. out: dense, all of one shape.
using ChainKernel = Kernel<void(const Context&, std::span<const Tensor> in, std::span<Tensor> out,
                                const Chain& chain)>;

}  // namespace brim::backend
