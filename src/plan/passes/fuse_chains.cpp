// Launches that work element by element, and one that works row by row, become one chain: each
// element is read and written once, and what lies between never reaches memory.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "backend/fused/chain.h"
#include "backend/has_kernel.h"
#include "plan/pass.h"
#include "plan/replace.h"

namespace brim::plan {
namespace {

using backend::Chain;
using backend::ChainIndex;
using backend::ChainLink;
using backend::LinkOptions;
using backend::LinkSlot;
using backend::RowPart;

constexpr int kReach = 64;  // launches, from the first to the last of a chain

/// How the elements of a chain lie: row-major, of whatever shape, or all in these strides.
struct Order {
  int64_t elements = 0;
  bool row_major = true;
  Shape shape;
  Strides strides;

  explicit Order(const Tensor& t)
      : elements(t.numel()), row_major(t.is_contiguous()), shape(t.shape()), strides(t.strides()) {}
  bool holds(const Tensor& t) const {
    return t.numel() == elements &&
           (row_major ? t.is_contiguous() : t.shape() == shape && t.strides() == strides);
  }
  friend bool operator==(const Order& a, const Order& b) {
    return a.elements == b.elements && a.row_major == b.row_major &&
           (a.row_major || (a.shape == b.shape && a.strides == b.strides));
  }
};

/// Where `t`, broadcast to y, has the number for each element of y in the order in which these lie;
/// nullopt where that is no repeated run of its elements.
std::optional<ChainIndex> broadcast_index(const Tensor& t, const Tensor& y) {
  if (t.numel() == 1) return ChainIndex{};
  if (t.rank() > y.rank()) return std::nullopt;
  std::vector<int> axes;  // of y, the fastest one first
  for (int i = 0; i < y.rank(); ++i)
    if (y.shape()[i] > 1) axes.push_back(i);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int a, int b) { return y.strides()[a] < y.strides()[b]; });
  ChainIndex index;
  bool ended = false;
  for (const int axis : axes) {
    const int64_t size = y.shape()[axis];
    const int k = axis - (y.rank() - t.rank());
    const int64_t stride = k < 0 || t.shape()[k] == 1 ? 0 : t.strides()[k];
    if (stride == 0) {
      if (index.period > 1)
        ended = true;
      else
        index.repeat *= size;
    } else if (ended || t.shape()[k] != size || stride != index.period) {
      return std::nullopt;
    } else {
      index.period *= size;
    }
  }
  return index;
}

/// A launch that can be a link of a chain.
struct Link {
  LinkOptions options;
  std::vector<ChainIndex> index;  ///< of the operands

  static std::optional<Link> of(const Launch& l) {
    if (l.refresh || l.commit || !backend::has_kernel("chain", l.device(), l.dtype()))
      return std::nullopt;
    Link link{.options = backend::link_of(l), .index = {}};
    const LinkSlot* slot = link.options.slot;
    if (!slot || (l.draw && slot->kind != LinkSlot::Kind::dropout)) return std::nullopt;
    const Tensor& y = result_of(l, *slot);
    const Order order(y);
    if (y.dtype() != l.dtype() || y.numel() == 0 || !(order.row_major || covers_storage(y)))
      return std::nullopt;
    if (slot->kind != LinkSlot::Kind::elementwise && !order.row_major) return std::nullopt;
    for (size_t i = 0; i < l.operands().size(); ++i) {
      const Operand& o = l.operands()[i];
      const auto index = o.tensor->defined() ? link.index_of(o, i, y, order) : ChainIndex{};
      if (!index) return std::nullopt;
      link.index.push_back(*index);
    }
    return link;
  }
  /// What it writes that is as large as the chain.
  static const Tensor& result_of(const Launch& l, const LinkSlot& slot) {
    for (size_t i = slot.parts.size(); i-- > 0;)
      if (slot.parts[i] == RowPart::row) return l.operand(i);
    return *l.operands().back().tensor;
  }
  const Tensor& result_of(const Launch& l) const { return result_of(l, *options.slot); }
  /// Whether operand `i` is as large as the chain, or can be.
  bool is_row(size_t i) const {
    return options.slot->parts.empty() || options.slot->parts[i] == RowPart::row;
  }

 private:
  std::optional<ChainIndex> index_of(const Operand& o, size_t i, const Tensor& y,
                                     const Order& order) const {
    const Tensor& t = *o.tensor;
    const int64_t n = order.elements, row = options.row;
    if (!is_row(i)) {
      const bool number = options.slot->parts[i] == RowPart::number;
      const ChainIndex spread{.repeat = number ? row : 1, .period = number ? n / row : row};
      return t.is_contiguous() && t.numel() == spread.period ? std::optional(spread) : std::nullopt;
    }
    if (t.dtype() != y.dtype()) return std::nullopt;
    if (order.holds(t)) return ChainIndex{.repeat = 1, .period = n};
    if (o.writes || options.slot->kind != LinkSlot::Kind::elementwise) return std::nullopt;
    return broadcast_index(t, y);
  }
};

/// Collects links while they fit into one chain.
class Group {
 public:
  Group(const Program& program, const Uses& uses, const std::vector<std::optional<Link>>& links)
      : program_(program), uses_(uses), links_(links) {}

  /// Adds launch `index`, or returns false.
  bool add(int index) {
    const Link& link = link_at(index);
    const Order order(link.result_of(launch(index)));
    const bool draws = link.options.slot->kind == LinkSlot::Kind::dropout;
    if (!members_.empty()) {
      if (!(order == *order_) || launch(index).dtype() != dtype_ ||
          members_.size() >= Chain::kMaxLinks || (link.options.row && row_) || (draws && drawing_))
        return false;
      if (!touches(index) && !is_next(index)) return false;
    }
    // What the chain writes may be read as just that: another view of it (a single element, spread
    // over all) would have to be read before or after as a whole.
    if (!agrees(index, index)) return false;
    for (const int m : members_)
      if (!agrees(index, m) || !agrees(m, index)) return false;
    const auto before = std::tuple(members_, row_, drawing_);
    members_.insert(std::upper_bound(members_.begin(), members_.end(), index), index);
    order_ = order;
    dtype_ = launch(index).dtype();
    if (link.options.row) row_ = link.options.row;
    if (draws) drawing_ = &launch(index);
    if (members_.size() == 1 || fuse()) return true;
    std::tie(members_, row_, drawing_) = before;
    return false;
  }
  const std::vector<int>& members() const { return members_; }

  /// Puts the chain in the place of its links.
  void apply(Program& program) {
    std::vector<std::unique_ptr<Launch>> launches;
    launches.push_back(std::move(fused_));
    replacement().apply(program, std::move(launches), {place_});
  }

 private:
  const Launch& launch(int i) const { return *program_.launches[static_cast<size_t>(i)]; }
  const Link& link_at(int i) const { return *links_[static_cast<size_t>(i)]; }

  /// Whether it uses what the chain uses.
  bool touches(int index) const {
    for (const Operand& o : launch(index).operands())
      for (const int m : members_)
        for (const Operand& other : launch(m).operands())
          if (o.tensor->defined() && other.tensor->defined() &&
              o.tensor->storage() == other.tensor->storage() && o.tensor->numel() > 1)
            return true;
    return false;
  }
  /// Whether it comes right behind the chain.
  bool is_next(int index) const {
    for (int i = members_.back() + 1; i < index; ++i)
      if (program_.launches[static_cast<size_t>(i)]) return false;
    return index > members_.back();
  }

  Replacement replacement() const {
    std::vector<Removed> removed;
    for (const int m : members_) removed.push_back({.launch = m, .elements = {}});
    return {program_, uses_, std::move(removed)};
  }

  /// Makes the chain and finds a place for it.
  bool fuse() {
    std::unique_ptr<Launch> fused = make();
    if (!fused) return false;
    std::vector<std::unique_ptr<Launch>> launches;
    launches.push_back(std::move(fused));
    const auto places = replacement().places(launches, Overlap::same);
    if (!places) return false;
    fused_ = std::move(launches[0]);
    place_ = (*places)[0];
    return true;
  }

  std::unique_ptr<Launch> make() const {
    static const backend::ChainKernel kernel("chain", {.operands = "in, out"});
    std::vector<Tensor> in, out, numbers, inner;  // numbers: outputs, one for each row
    Chain chain;
    chain.elements = order_->elements;
    chain.row = row_;
    chain.draws = drawing_ != nullptr;
    std::vector<ChainIndex> in_index, number_index;
    for (const int m : members_) {
      const Link& link = link_at(m);
      const auto operands = launch(m).operands();
      for (size_t i = 0; i < operands.size(); ++i) {
        const Tensor& t = *operands[i].tensor;
        if (!t.defined() || operands[i].writes) continue;
        const ChainIndex& index = link.index[i];
        // A row's number is complete behind the row, and what all rows share has to be in memory.
        if (find(numbers, t)) return nullptr;
        if (find(out, t) || find(inner, t)) {
          if (!is_whole(index) || !link.is_row(i)) return nullptr;
          continue;
        }
        if (const auto known = find(in, t)) {
          if (in_index[*known] == index) continue;
          return nullptr;  // the same numbers, spread in two ways
        }
        in.push_back(t);
        in_index.push_back(index);
      }
      for (size_t i = 0; i < operands.size(); ++i) {
        const Tensor& t = *operands[i].tensor;
        if (!t.defined() || !operands[i].writes || find(out, t) || find(inner, t)) continue;
        if (!link.is_row(i)) {
          numbers.push_back(t);
          number_index.push_back(link.index[i]);
        } else {
          (stays_inside(t) ? inner : out).push_back(t);
        }
      }
    }
    if (std::any_of(out.begin(), out.end(), [&](const Tensor& t) {
          const int times = times_written_before_rows(t);
          return times > 1 || (times == 1 && find(in, t));
        }))
      return nullptr;  // a row may go through the links before the one on rows twice
    chain.index = in_index;
    chain.index.resize(in.size() + out.size(), {.repeat = 1, .period = order_->elements});
    chain.index.insert(chain.index.end(), number_index.begin(), number_index.end());
    chain.inner = static_cast<int>(inner.size());
    if (out.empty() || inner.size() > Chain::kMaxInner ||
        chain.index.size() + inner.size() > static_cast<size_t>(Chain::kMaxRegisters))
      return nullptr;
    out.insert(out.end(), numbers.begin(), numbers.end());
    const auto number = [&](const Tensor& t) {
      if (!t.defined()) return -1;
      // An input that the chain overwrites later is an output as well: the same memory.
      if (const auto i = find(out, t)) return static_cast<int>(in.size() + *i);
      if (const auto i = find(inner, t)) return static_cast<int>(in.size() + out.size() + *i);
      return static_cast<int>(*find(in, t));
    };
    for (const int m : members_) {
      const LinkOptions& options = link_at(m).options;
      ChainLink link{options.slot, options.params, {}};
      link.registers.fill(-1);
      const auto operands = launch(m).operands();
      for (size_t i = 0; i < operands.size(); ++i) link.registers[i] = number(*operands[i].tensor);
      chain.links.push_back(link);
    }
    std::unique_ptr<Launch> made =
        kernel.launch(program_.device, dtype_, in, out, chain,
                      drawing_ ? *drawing_->option<RandomKey>() : RandomKey{});
    if (drawing_) made->draw = drawing_->draw;
    return made;
  }

  bool is_whole(const ChainIndex& index) const {
    return index.repeat == 1 && index.period == order_->elements;
  }
  static std::optional<size_t> find(const std::vector<Tensor>& list, const Tensor& t) {
    for (size_t i = 0; i < list.size(); ++i)
      if (same_elements(list[i], t)) return i;
    return std::nullopt;
  }
  /// Whether `reader` sees the results of `writer` only as the same registers, or not at all.
  bool agrees(int reader, int writer) const {
    for (const Operand& w : launch(writer).operands()) {
      if (!w.writes || !w.tensor->defined()) continue;
      for (const Operand& o : launch(reader).operands())
        if (o.tensor->defined() && o.tensor->storage() == w.tensor->storage() &&
            !same_elements(*o.tensor, *w.tensor))
          return false;
    }
    return true;
  }
  /// By links in front of the one that works on rows.
  int times_written_before_rows(const Tensor& t) const {
    int times = 0;
    if (!row_) return times;
    for (const int m : members_) {
      if (link_at(m).options.row) break;
      for (const Operand& o : launch(m).operands())
        times += o.writes && o.tensor->defined() && same_elements(*o.tensor, t);
    }
    return times;
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
  const std::vector<std::optional<Link>>& links_;
  std::vector<int> members_;  // in rising order
  std::optional<Order> order_;
  DType dtype_ = DType::f32;
  int64_t row_ = 0;
  const Launch* drawing_ = nullptr;
  std::unique_ptr<Launch> fused_;
  int place_ = 0;
};

}  // namespace

std::string fuse_chains(Program& program) {
  int chains = 0, fused = 0;
  const Uses uses(program);  // launches keep their numbers until compact()
  const int count = static_cast<int>(program.launches.size());
  std::vector<std::optional<Link>> links;
  for (const auto& launch : program.launches) links.push_back(Link::of(*launch));
  for (int i = 0; i < count; ++i) {
    if (!links[static_cast<size_t>(i)]) continue;
    Group group(program, uses, links);
    if (!group.add(i)) continue;
    // A link may fit only once a later one is there that it needs.
    for (bool grown = true; grown;) {
      grown = false;
      const int end = std::min(count, i + kReach);
      for (int k = i + 1; k < end; ++k)
        if (links[static_cast<size_t>(k)] &&
            !std::binary_search(group.members().begin(), group.members().end(), k))
          grown = group.add(k) || grown;
    }
    const int size = static_cast<int>(group.members().size());
    if (size < 2) continue;
    for (const int m : group.members()) links[static_cast<size_t>(m)] = std::nullopt;
    group.apply(program);
    ++chains;
    fused += size;
  }
  program.compact();
  return chains ? fmt::format("{} launches became {} chains", fused, chains) : "";
}

}  // namespace brim::plan
