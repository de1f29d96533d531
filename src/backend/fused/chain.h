// Chains: kernels that work element by element, and one that works row by row, in one pass over
// memory. A link computes registers from others; a register holds a run of elements that stays in
// the fastest cache, and reaches memory only where others than the chain read it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <brim/formula/dense.h>
#include <brim/formula/formula.h>

#include "backend/kernel.h"
#include "backend/launch.h"

namespace brim::backend {

using formula::DenseLoop;

/// Dropout of `n` elements on the CPU, of which x[0] is number `first` of the whole tensor.
using DropoutLoop = void (*)(const void* x, void* y, int64_t first, int64_t n, double p,
                             const RandomKey& key);
/// One row of a kernel on the CPU: its operands at that row in the order of their declaration, null
/// where they are left out. Written ones may be read ones of the same memory.
using RowLoop = void (*)(void* const* operands, int64_t n, const formula::Params& params);

/// What an operand of a row-wise kernel has for each row.
enum class RowPart : uint8_t {
  row,      ///< the row itself
  columns,  ///< one row that all share: a weight
  number    ///< one number: a mean
};

/// A kernel that can be a link of chains. It lives as long as the process.
struct LinkSlot {
  enum class Kind : uint8_t { elementwise, dropout, rows };
  Kind kind = Kind::elementwise;
  /// Inputs and outputs: all whole, and of one dtype, but for rows.
  int operands = 0;
  std::vector<RowPart> parts;  ///< rows: of each operand
  /// By dtype, what the CPU's chains run; rows of 16 bits without a loop are widened for that of
  /// f32.
  std::array<DenseLoop, kDTypeCount> loops{};
  std::array<DropoutLoop, kDTypeCount> dropout_loops{};
  std::array<RowLoop, kDTypeCount> row_loops{};
  /// By kind of device and dtype, whether its chains know it.
  std::array<std::array<bool, kDTypeCount>, kDeviceKindCount> known{};
};

/// Tells that `name` is elementwise, and that the CPU's chains know it. For static initialisation,
/// as all of these.
bool register_elementwise(std::string_view name, int inputs, DType dtype, DenseLoop loop);
bool register_dropout_link(DType dtype, DropoutLoop loop);
bool register_row_link(std::string_view name, DType dtype, RowLoop loop);
/// Tells that the chains of another kind of device know a link.
bool register_in_chains(std::string_view name, DeviceKind kind, DType dtype);

/// Null where `name` is no elementwise kernel whose operands have one dtype, or not for this one.
const LinkSlot* find_elementwise(std::string_view name, DType dtype);
/// The launch's kernel as a link of the device's chains, with its options; null where it is none.
struct LinkOptions {
  const LinkSlot* slot = nullptr;
  formula::Params params;
  int64_t row = 0;  ///< elements of a row; 0 where it does not work on rows
};
LinkOptions link_of(const Launch& launch);
/// "mul, softmax" of a launch of a chain; else nothing.
std::string names_of_links(const Launch& launch);
/// The slot of a name, made on first use.
LinkSlot& link_slot(std::string_view name);

struct ChainLink {
  static constexpr int kMaxOperands = 6;
  const LinkSlot* slot;
  formula::Params params;
  std::array<int, kMaxOperands> registers;  ///< in the order of operands; -1: left out
  friend bool operator==(const ChainLink&, const ChainLink&) = default;
};

/// Where a register has the number for element i of the chain: at (i / repeat) % period.
struct ChainIndex {
  int64_t repeat = 1, period = 1;
  friend bool operator==(const ChainIndex&, const ChainIndex&) = default;
};

/// Registers are numbered: the inputs, then the outputs, then those inside the chain.
struct Chain {
  static constexpr int kMaxInner = 8;
  static constexpr int kMaxRegisters = 24;
  static constexpr int kMaxLinks = 16;
  /// Elements of a row, so that what a thread group keeps of it fits.
  static constexpr int64_t kMaxRow = 8192;

  int64_t elements = 0;
  int64_t row = 0;  ///< elements of a row where a link works on rows, one at most; else 0
  std::vector<ChainLink> links;
  std::vector<ChainIndex> index;  ///< of inputs and outputs
  int inner = 0;                  ///< registers inside, at most kMaxInner
  bool draws = false;             ///< whether a link is dropout, one at most

  bool is_whole(size_t r) const {
    return r >= index.size() || (index[r].repeat == 1 && index[r].period == elements);
  }
  friend bool operator==(const Chain&, const Chain&) = default;
};

/// in, out: dense; outputs as large as the chain come first, and have its dtype. What a chain reads
/// and overwrites is among both. key: of the dropout.
using ChainKernel = Kernel<void(const Context&, std::span<const Tensor> in, std::span<Tensor> out,
                                const Chain& chain, const RandomKey& key)>;

}  // namespace brim::backend
