// Runs of elementwise launches become one chain: each element is read and written once, and what
// lies between never reaches memory.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "backend/fused/elementwise_chain.h"
#include "backend/has_kernel.h"
#include "backend/launch_policy.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

using backend::Chain;
using backend::ChainLink;
using backend::ElementwiseSlot;

/// The launch as a link: its inputs come first, its output last; all are dense in one order.
bool is_link(const Launch& l) {
  const ElementwiseSlot* slot = backend::find_elementwise(l.name(), l.dtype());
  const auto operands = l.operands();
  const auto kind = static_cast<size_t>(backend::launch_policy(l.device().kind).kernels);
  if (!slot || !slot->in_chains[kind] ||
      !backend::has_kernel("elementwise_chain", l.device(), l.dtype()) || l.refresh || l.commit ||
      l.draw || !l.option<formula::Params>() ||
      operands.size() != static_cast<size_t>(slot->inputs) + 1 || !operands.back().writes)
    return false;
  const Tensor& y = *operands.back().tensor;
  if (y.dtype() != l.dtype() || !covers_storage(y) || y.numel() == 0) return false;
  for (const Operand& o : operands) {
    const Tensor& t = *o.tensor;
    if (t.dtype() != y.dtype()) return false;
    if (t.numel() != 1 &&
        (t.shape() != y.shape() || t.strides() != y.strides() || !covers_storage(t)))
      return false;
  }
  return true;
}

/// Collects links while they fit into one chain.
class Group {
 public:
  Group(const Program& program, const Uses& uses) : program_(program), uses_(uses) {}

  /// Adds launch `index`, or returns false.
  bool add(int index) {
    const Launch& l = *program_.launches[static_cast<size_t>(index)];
    if (!is_link(l)) return false;
    const Tensor& y = *l.operands().back().tensor;
    if (!members_.empty() &&
        (y.shape() != shape_ || y.strides() != strides_ || l.dtype() != dtype_))
      return false;
    if (members_.size() >= static_cast<size_t>(Chain::kMaxRegisters / 3)) return false;
    // What the chain writes may be read as just that: another view of it (a single element, spread
    // over all) would have to be read before or after as a whole.
    if (!agrees(l, l)) return false;
    for (const int m : members_) {
      const Launch& other = *program_.launches[static_cast<size_t>(m)];
      if (!agrees(l, other) || !agrees(other, l)) return false;
    }
    members_.push_back(index);
    shape_ = y.shape();
    strides_ = y.strides();
    dtype_ = l.dtype();
    return true;
  }
  const std::vector<int>& members() const { return members_; }

  std::unique_ptr<Launch> fused() const {
    static const backend::ChainKernel kernel("elementwise_chain", {.operands = "in, out"});
    std::vector<Tensor> in, out, inner;
    for (const int m : members_) {
      const auto operands = program_.launches[static_cast<size_t>(m)]->operands();
      for (const Operand& o : operands)
        if (!o.writes && !find(out, *o.tensor) && !find(inner, *o.tensor) && !find(in, *o.tensor))
          in.push_back(*o.tensor);
      const Tensor& y = *operands.back().tensor;
      if (!find(out, y) && !find(inner, y)) (stays_inside(y) ? inner : out).push_back(y);
    }
    if (out.empty() || inner.size() > Chain::kMaxInner ||
        in.size() + out.size() + inner.size() > static_cast<size_t>(Chain::kMaxRegisters))
      return nullptr;
    Chain chain{{}, static_cast<int>(inner.size())};
    const auto number = [&](const Tensor& t) {
      // An input that the chain overwrites later is an output as well: the same memory.
      if (const auto i = find(out, t)) return static_cast<int>(in.size() + *i);
      if (const auto i = find(inner, t)) return static_cast<int>(in.size() + out.size() + *i);
      return static_cast<int>(*find(in, t));
    };
    for (const int m : members_) {
      const Launch& l = *program_.launches[static_cast<size_t>(m)];
      const auto operands = l.operands();
      chain.links.push_back({backend::find_elementwise(l.name(), l.dtype()),
                             *l.option<formula::Params>(), number(*operands.back().tensor),
                             number(*operands[0].tensor),
                             operands.size() == 3 ? number(*operands[1].tensor) : -1});
    }
    return kernel.launch(program_.device, dtype_, in, out, chain);
  }

 private:
  static std::optional<size_t> find(const std::vector<Tensor>& list, const Tensor& t) {
    for (size_t i = 0; i < list.size(); ++i)
      if (same_view(list[i], t)) return i;
    return std::nullopt;
  }
  /// Whether `reader` sees the result of `writer` only as the same view, or not at all.
  static bool agrees(const Launch& reader, const Launch& writer) {
    const Tensor& y = *writer.operands().back().tensor;
    return std::all_of(reader.operands().begin(), reader.operands().end(), [&](const Operand& o) {
      return o.tensor->storage() != y.storage() || same_view(*o.tensor, y);
    });
  }
  bool contains(int index) const {
    return std::find(members_.begin(), members_.end(), index) != members_.end();
  }
  /// A temporary that only this chain makes and uses.
  bool stays_inside(const Tensor& y) const {
    if (!program_.temporary(y)) return false;
    const std::vector<int>&writers = uses_.writers(y), &readers = uses_.readers(y);
    return std::all_of(writers.begin(), writers.end(), [&](int i) { return contains(i); }) &&
           std::all_of(readers.begin(), readers.end(), [&](int i) { return contains(i); });
  }

  const Program& program_;
  const Uses& uses_;
  std::vector<int> members_;
  Shape shape_;
  Strides strides_;
  DType dtype_ = DType::f32;
};

}  // namespace

std::string fuse_elementwise(Program& program) {
  int chains = 0, links = 0;
  const Uses uses(program);  // launches keep their numbers until compact()
  const int count = static_cast<int>(program.launches.size());
  for (int i = 0; i < count;) {
    Group group(program, uses);
    int next = i;
    while (next < count && group.add(next)) ++next;
    if (next - i >= 2)
      if (std::unique_ptr<Launch> fused = group.fused()) {
        for (int k = i + 1; k < next; ++k) program.launches[static_cast<size_t>(k)] = nullptr;
        program.launches[static_cast<size_t>(i)] = std::move(fused);
        ++chains;
        links += next - i;
      }
    i = std::max(next, i + 1);
  }
  program.compact();
  return chains ? fmt::format("{} elementwise launches became {} chains", links, chains) : "";
}

}  // namespace brim::plan
