// The collectives' kernels, written once for all devices over a Mover: what moves and reduces bytes
// where tensors of such a device lie. A backend registers them with a Mover of its own:
//
//   struct Mover {
//     static constexpr int64_t kBlock;   // elements that are reduced at a time
//     explicit Mover(const Context&);    // the rest is queued on its stream
//     void copy(std::span<const Copy>);
//     void reduce(DType, Reduce, void* into, const void* from, int64_t count);
//     void exchange(Transport&, const Call&, std::span<const Outgoing>, std::span<const Incoming>);
//     static bool is_replayed(const Context&);  // whether a graph may hold this call
//   };
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/kernel.h"
#include "backend/types.h"
#include "core/hash.h"
#include "diag/span.h"
#include "dist/collectives.h"
#include "dist/sum_tree.h"
#include "dist/transport.h"

namespace brim::dist {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

/// Whether one exchange of everything is faster than two of parts.
inline bool is_small(size_t bytes, size_t members) {
  return bytes <= 8 << 10 && bytes * (members - 1) <= 64 << 10;
}

inline char* address_of(void* data, int64_t elements, size_t size) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size);
}
inline size_t bytes_of(int64_t elements, size_t size) {
  return static_cast<size_t>(elements) * size;
}

/// Elements [begin, end) of a tensor: what one rank reduces for all.
struct Part {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
inline Part part_of(int64_t elements, int rank, int size) {
  const auto cut = [&](int64_t r) { return elements / size * r + std::min(r, elements % size); };
  return {cut(rank), cut(rank + 1)};
}

/// What a rank calls, for the others to compare.
Call call_of(CallKind kind, std::span<const Tensor> tensors, const CollectiveOptions& options,
             bool is_replayed);

/// What some ranks have of the same elements: nodes of the tree over virtual ranks.
template <class Mover>
class NodeSums {
 public:
  NodeSums(Mover& mover, const Call& call, int64_t virtual_ranks, std::vector<TreeNode> nodes)
      : mover_(mover),
        call_(call),
        all_{0, virtual_ranks},
        element_(size_of(call.dtype)),
        nodes_(std::move(nodes)) {}

  /// Reduces them to the largest nodes within `range`, which they make up; `data`: of each node, in
  /// the order of the tree, spoilt. Returns where the results are.
  std::vector<void*> reduce(const TreeNode& range, const std::vector<void*>& data, int64_t count) {
    std::vector<TreeNode> wanted;
    nodes_within(all_, range, wanted);
    std::vector<void*> results(wanted.size());
    for (int64_t begin = 0; begin == 0 || begin < count; begin += Mover::kBlock) {
      const int64_t n = std::min(Mover::kBlock, count - begin);
      size_t next = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        void* const sum = reduce(wanted[i], data, next, begin, n);
        if (begin == 0) results[i] = sum;
      }
    }
    return results;
  }

 private:
  void* reduce(const TreeNode& node, const std::vector<void*>& data, size_t& next, int64_t begin,
               int64_t count) {
    if (nodes_[next] == node) return address_of(data[next++], begin, element_);
    void* const left = reduce(node.left(), data, next, begin, count);
    void* const right = reduce(node.right(), data, next, begin, count);
    mover_.reduce(call_.dtype, call_.reduce, left, right, count);
    return left;
  }

  Mover& mover_;
  const Call& call_;
  const TreeNode all_;
  const size_t element_;
  std::vector<TreeNode> nodes_;
};

/// Of hosts with several ranks each, these first reduce among themselves, each a part of the
/// elements; then ranks with the same part meet over the network, which so carries each element
/// once a host, and not once a rank.
template <class Mover>
struct AllReduce {
  Mover& mover;
  Transport& transport;
  const Call& call;
  const Context& context;
  int64_t virtual_ranks;

  const int rank = transport.rank(), size = transport.size();
  const size_t element = size_of(call.dtype);

  /// One of the ranks that exchange, and the virtual ranks of which it has nodes.
  struct Member {
    int rank;
    TreeNode range;
    std::vector<TreeNode> nodes(int64_t of_virtual_ranks) const {
      std::vector<TreeNode> all;
      nodes_within({0, of_virtual_ranks}, range, all);
      return all;
    }
  };
  struct Members {
    std::vector<Member> all;  ///< in the order of their ranges, which lie side by side
    size_t self = 0;
    TreeNode range() const { return {all.front().range.begin, all.back().range.end}; }
  };

  /// Exchanges elements [part(i)] of the nodes with member i, and calls use(sums): where the nodes
  /// of all members together are, of this one's part.
  template <class PartOf, class Use>
  void reduce_part(const Members& members, std::span<void* const> nodes, const PartOf& part,
                   const Use& use) {
    const Part mine = part(members.self);
    const size_t bytes = bytes_of(mine.count(), element);
    std::vector<void*> data;
    std::vector<TreeNode> tree;
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    size_t others = 0;
    for (size_t i = 0; i < members.all.size(); ++i)
      if (i != members.self) others += members.all[i].nodes(virtual_ranks).size();
    const Workspace scratch = context.workspace(others * bytes);
    char* free = scratch.as<char>();
    for (size_t i = 0; i < members.all.size(); ++i) {
      const Member& member = members.all[i];
      const std::vector<TreeNode> theirs = member.nodes(virtual_ranks);
      tree.insert(tree.end(), theirs.begin(), theirs.end());
      if (i == members.self) {
        for (void* const node : nodes) data.push_back(address_of(node, mine.begin, element));
        continue;
      }
      const Part other = part(i);
      for (void* const node : nodes)
        out.push_back({member.rank, address_of(node, other.begin, element),
                       bytes_of(other.count(), element)});
      for (size_t k = 0; k < theirs.size(); ++k, free += bytes) {
        in.push_back({member.rank, free, bytes});
        data.push_back(free);
      }
    }
    mover.exchange(transport, call, out, in);
    NodeSums sums(mover, call, virtual_ranks, std::move(tree));
    use(sums.reduce(members.range(), data, mine.count()));
  }

  /// Each member has [part(i)] of the result; afterwards all of it.
  template <class PartOf>
  void all_gather(const Members& members, void* result, const PartOf& part) {
    const Part mine = part(members.self);
    char* const own = address_of(result, mine.begin, element);
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (size_t i = 0; i < members.all.size(); ++i) {
      if (i == members.self) continue;
      const Part theirs = part(i);
      out.push_back({members.all[i].rank, own, bytes_of(mine.count(), element)});
      in.push_back({members.all[i].rank, address_of(result, theirs.begin, element),
                    bytes_of(theirs.count(), element)});
    }
    mover.exchange(transport, call, out, in);
  }

  void copy(void* to, const void* from, int64_t count) {
    const Copy copy{to, from, bytes_of(count, element)};
    if (to != from && copy.bytes > 0) mover.copy({&copy, 1});
  }

  /// Among members that have all virtual ranks.
  void among(const Members& members, std::span<void* const> nodes, int64_t elements, void* result) {
    if (members.all.size() == 1 || is_small(bytes_of(elements, element), members.all.size()))
      return reduce_part(
          members, nodes,
          [&](size_t) {
            return Part{0, elements};
          },
          [&](const std::vector<void*>& sums) { copy(result, sums[0], elements); });
    const auto part = parts(elements, members);
    const Part mine = part(members.self);
    reduce_part(members, nodes, part, [&](const std::vector<void*>& sums) {
      copy(address_of(result, mine.begin, element), sums[0], mine.count());
    });
    all_gather(members, result, part);
  }

  /// The first node becomes the sum of all.
  void operator()(std::span<void* const> nodes, int64_t elements) {
    void* const result = nodes[0];
    const int each = transport.ranks_per_host();
    if (each == 1 || each == size ||
        is_small(bytes_of(elements, element), static_cast<size_t>(size))) {
      Members all{.self = static_cast<size_t>(rank)};
      for (int r = 0; r < size; ++r) all.all.push_back(member(r));
      return among(all, nodes, elements, result);
    }
    const int host = rank / each, local = rank % each;
    Members here{.self = static_cast<size_t>(local)};
    for (int r = 0; r < each; ++r) here.all.push_back(member(host * each + r));
    Members across{.self = static_cast<size_t>(host)};
    for (int h = 0; h < size / each; ++h)
      across.all.push_back({h * each + local,
                            {member(h * each).range.begin, member(h * each + each - 1).range.end}});
    const auto part = parts(elements, here);
    const Part mine = part(here.self);
    reduce_part(here, nodes, part, [&](const std::vector<void*>& sums) {
      among(across, sums, mine.count(), address_of(result, mine.begin, element));
    });
    all_gather(here, result, part);
  }

 private:
  Member member(int r) const { return {r, virtual_ranks_of(r, size, virtual_ranks)}; }
  static auto parts(int64_t elements, const Members& members) {
    return [elements, count = static_cast<int>(members.all.size())](size_t i) {
      return part_of(elements, static_cast<int>(i), count);
    };
  }
};

/// The tensors' elements one after the other; one tensor alone as it lies.
template <class Mover>
class Packed {
 public:
  Packed(Mover& mover, const Context& context, std::span<Tensor> tensors)
      : mover_(mover), tensors_(tensors) {
    for (const Tensor& t : tensors) elements_ += t.numel();
    if (tensors.size() == 1) {
      data_ = tensors[0].raw();
      return;
    }
    memory_.emplace(bytes_of(elements_, size()), context.stream, context.scratch);
    data_ = memory_->template as<char>();
  }
  void* data() const { return data_; }
  int64_t elements() const { return elements_; }
  void pack() {
    copy_each([](void* tensor, void* packed, size_t bytes) { return Copy{packed, tensor, bytes}; });
  }
  void unpack() {
    copy_each([](void* tensor, void* packed, size_t bytes) { return Copy{tensor, packed, bytes}; });
  }

 private:
  size_t size() const { return size_of(tensors_[0].dtype()); }
  template <class F>
  void copy_each(const F& copy_of) {
    if (!memory_) return;
    std::vector<Copy> copies;
    char* packed = static_cast<char*>(data_);
    for (const Tensor& t : tensors_) {
      const size_t bytes = bytes_of(t.numel(), size());
      if (bytes > 0) copies.push_back(copy_of(t.raw(), packed, bytes));
      packed += bytes;
    }
    mover_.copy(copies);
  }

  Mover& mover_;
  std::span<Tensor> tensors_;
  int64_t elements_ = 0;
  std::optional<Workspace> memory_;
  void* data_ = nullptr;
};

template <class Mover>
struct CollectiveKernels {
  /// `others`: of each tensor, in order, what this rank's second, third, ... node has.
  static void all_reduce(const Context& context, std::span<Tensor> tensors,
                         std::span<Tensor> others, const CollectiveOptions& o) {
    const diag::Span span("all_reduce", diag::Cause::communication);
    Mover mover(context);
    ProcessGroup& group = *o.group;
    const int64_t virtual_ranks = o.virtual_ranks > 0 ? o.virtual_ranks : group.size();
    const size_t more = others.size() / tensors.size();
    std::vector<std::vector<Tensor>> lists(more);  // by node but the first
    for (size_t i = 0; i < others.size(); ++i) lists[i % more].push_back(others[i]);
    std::vector<std::unique_ptr<Packed<Mover>>> nodes;
    std::vector<void*> data;
    for (size_t k = 0; k <= more; ++k) {
      nodes.push_back(std::make_unique<Packed<Mover>>(mover, context,
                                                      k == 0 ? tensors : std::span(lists[k - 1])));
      nodes.back()->pack();
      data.push_back(nodes.back()->data());
    }
    group.run(call_of(CallKind::all_reduce, tensors, o, Mover::is_replayed(context)),
              [&](Transport& transport, const Call& call) {
                AllReduce<Mover>{mover, transport, call, context, virtual_ranks}(
                    data, nodes[0]->elements());
              });
    nodes[0]->unpack();
  }

  static void broadcast(const Context& context, std::span<Tensor> tensors,
                        const CollectiveOptions& o) {
    const diag::Span span("broadcast", diag::Cause::communication);
    Mover mover(context);
    ProcessGroup& group = *o.group;
    Packed<Mover> packed(mover, context, tensors);
    if (group.rank() == o.root) packed.pack();
    group.run(call_of(CallKind::broadcast, tensors, o, Mover::is_replayed(context)),
              [&](Transport& transport, const Call& call) {
                const size_t bytes = bytes_of(packed.elements(), size_of(call.dtype));
                std::vector<Outgoing> out;
                std::vector<Incoming> in;
                if (group.rank() != o.root)
                  in.push_back({o.root, packed.data(), bytes});
                else
                  for (int peer = 0; peer < group.size(); ++peer)
                    if (peer != o.root) out.push_back({peer, packed.data(), bytes});
                mover.exchange(transport, call, out, in);
              });
    if (group.rank() != o.root) packed.unpack();
  }

  static void all_gather(const Context& context, const Tensor& x, Tensor& y,
                         const CollectiveOptions& o) {
    const diag::Span span("all_gather", diag::Cause::communication);
    o.group->run(call_of(CallKind::all_gather, {&x, 1}, o, Mover::is_replayed(context)),
                 [&](Transport& t, const Call& call) {
                   Mover mover(context);
                   exchange_rows(mover, t, call, x.raw(), false, y.raw(),
                                 bytes_of(x.numel(), size_of(x.dtype())));
                 });
  }

  static void all_to_all(const Context& context, const Tensor& x, Tensor& y,
                         const CollectiveOptions& o) {
    const diag::Span span("all_to_all", diag::Cause::communication);
    o.group->run(call_of(CallKind::all_to_all, {&x, 1}, o, Mover::is_replayed(context)),
                 [&](Transport& t, const Call& call) {
                   Mover mover(context);
                   exchange_rows(mover, t, call, x.raw(), true, y.raw(),
                                 bytes_of(x.numel() / t.size(), size_of(x.dtype())));
                 });
  }

  static void reduce_scatter(const Context& context, const Tensor& x, Tensor& y,
                             const CollectiveOptions& o) {
    const diag::Span span("reduce_scatter", diag::Cause::communication);
    const size_t row = bytes_of(y.numel(), size_of(y.dtype()));
    o.group->run(call_of(CallKind::reduce_scatter, {&x, 1}, o, Mover::is_replayed(context)),
                 [&](Transport& t, const Call& call) {
                   Mover mover(context);
                   const auto size = static_cast<size_t>(t.size());
                   const Workspace scratch = context.workspace(row * size);
                   exchange_rows(mover, t, call, x.raw(), true, scratch.as<char>(), row);
                   std::vector<void*> data;
                   for (size_t r = 0; r < size; ++r) data.push_back(scratch.as<char>() + r * row);
                   std::vector<TreeNode> ranks;
                   for (int r = 0; r < t.size(); ++r) ranks.push_back({r, r + 1});
                   NodeSums sums(mover, call, t.size(), std::move(ranks));
                   const Copy copy{y.raw(), sums.reduce({0, t.size()}, data, y.numel())[0], row};
                   if (row > 0) mover.copy({&copy, 1});
                 });
  }

  static void send(const Context& context, std::span<Tensor> tensors, const CollectiveOptions& o) {
    const diag::Span span("send", diag::Cause::communication);
    const Tensor& t = tensors[0];
    o.group->run(call_of(CallKind::send, tensors, {}, false),
                 [&](Transport& transport, const Call& call) {
                   const Outgoing out{o.root, t.raw(), bytes_of(t.numel(), size_of(t.dtype()))};
                   Mover(context).exchange(transport, call, {&out, 1}, {});
                 });
  }

  static void receive(const Context& context, std::span<Tensor> tensors,
                      const CollectiveOptions& o) {
    const diag::Span span("receive", diag::Cause::communication);
    const Tensor& t = tensors[0];
    o.group->run(call_of(CallKind::send, tensors, {}, false),
                 [&](Transport& transport, const Call& call) {
                   const Incoming in{o.root, t.raw(), bytes_of(t.numel(), size_of(t.dtype()))};
                   Mover(context).exchange(transport, call, {}, {&in, 1});
                 });
  }

  /// For devices of a kind, in all dtypes.
  static bool add_to(DeviceKind kind) {
    return backend::for_each_type(backend::AllTypes{}, [kind]<class T>(std::type_identity<T>) {
      const auto add = [kind](const char* name, auto* function) {
        backend::register_kernel(name, kind, dtype_of<T>, function);
      };
      add("all_reduce", &all_reduce);
      add("broadcast", &broadcast);
      add("all_gather", &all_gather);
      add("all_to_all", &all_to_all);
      add("reduce_scatter", &reduce_scatter);
      add("send", &send);
      add("receive", &receive);
    });
  }

 private:
  /// Sends x's part for each peer, or all of x, and receives y's from each.
  static void exchange_rows(Mover& mover, Transport& transport, const Call& call, void* x,
                            bool x_has_rows, void* y, size_t row) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    const auto row_of = [&](int r) { return static_cast<size_t>(r) * row; };
    const char* const from = static_cast<const char*>(x);
    char* const to = static_cast<char*>(y);
    for (int peer = 0; peer < transport.size(); ++peer) {
      const char* const part = from + (x_has_rows ? row_of(peer) : 0);
      if (peer == transport.rank()) {
        const Copy own{to + row_of(peer), part, row};
        if (row > 0) mover.copy({&own, 1});
        continue;
      }
      out.push_back({peer, part, row});
      in.push_back({peer, to + row_of(peer), row});
    }
    mover.exchange(transport, call, out, in);
  }
};

}  // namespace brim::dist
