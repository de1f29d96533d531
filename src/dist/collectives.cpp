#include "dist/collectives.h"

#include <brim/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/launch.h"
#include "backend/types.h"
#include "core/context.h"
#include "core/hash.h"
#include "core/recording.h"
#include "diag/span.h"
#include "dist/reduce_elements.h"
#include "dist/sum_tree.h"
#include "dist/transport.h"
#include "ops/checks.h"

namespace brim::dist {
namespace {

/// Below this, one exchange of everything is faster than two of parts.
constexpr size_t kExchangeAllBelow = 8 << 10;
/// Elements that are summed up at a time, so that they are in cache.
constexpr int64_t kBlock = 4096;

// --- on bytes
// -------------------------------------------------------------------------------------

char* at(void* data, int64_t elements, size_t size) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size);
}
size_t bytes_of(int64_t elements, size_t size) { return static_cast<size_t>(elements) * size; }

/// Elements [begin, end) of a tensor: what one rank sums up for all.
struct Part {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
Part part_of(int64_t elements, int rank, int size) {
  const auto cut = [&](int64_t r) { return elements / size * r + std::min(r, elements % size); };
  return {cut(rank), cut(rank + 1)};
}

/// The nodes of all ranks over the same elements, in the order of the tree.
class NodeSums {
 public:
  NodeSums(const Call& call, int size, int64_t virtual_ranks)
      : call_(call), all_{0, virtual_ranks}, element_(size_of(call.dtype)) {
    for (int rank = 0; rank < size; ++rank)
      nodes_within(all_, virtual_ranks_of(rank, size, virtual_ranks), nodes_);
  }
  /// Reduces them; `data`: of each node, spoilt. Returns the one that holds the result.
  void* reduce(std::vector<void*> data, int64_t count) {
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t n = std::min(kBlock, count - begin);
      size_t next = 0;
      (void)reduce(all_, data, next, begin, n);
    }
    return data[0];
  }

 private:
  void* reduce(const TreeNode& node, const std::vector<void*>& data, size_t& next, int64_t begin,
               int64_t count) {
    if (nodes_[next] == node) return at(data[next++], begin, element_);
    void* const left = reduce(node.left(), data, next, begin, count);
    void* const right = reduce(node.right(), data, next, begin, count);
    reduce_elements(call_.dtype, call_.reduce, left, right, count);
    return left;
  }

  const Call& call_;
  const TreeNode all_;
  const size_t element_;
  std::vector<TreeNode> nodes_;
};

struct AllReduce {
  Transport& transport;
  const Call& call;
  const Context& context;
  int64_t virtual_ranks;

  const int rank = transport.rank(), size = transport.size();
  const size_t element = size_of(call.dtype);

  /// Exchanges elements [part of peer] of all nodes, and reduces those of `mine`. Returns where the
  /// result is.
  template <class PartOf>
  void run(std::span<void* const> nodes, const PartOf& part,
           const std::function<void(void*)>& use) {
    const Part mine = part(rank);
    std::vector<void*> data;
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    size_t others = 0;
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) others += nodes_of(peer, size, virtual_ranks).size();
    const Workspace scratch = context.workspace(others * bytes_of(mine.count(), element));
    char* free = scratch.as<char>();
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) {
        for (void* const node : nodes) data.push_back(at(node, mine.begin, element));
        continue;
      }
      const Part theirs = part(peer);
      for (void* const node : nodes)
        out.push_back({peer, at(node, theirs.begin, element), bytes_of(theirs.count(), element)});
      for (size_t k = nodes_of(peer, size, virtual_ranks).size(); k > 0; --k) {
        in.push_back({peer, free, bytes_of(mine.count(), element)});
        data.push_back(free);
        free += bytes_of(mine.count(), element);
      }
    }
    transport.exchange(call, out, in);
    use(NodeSums(call, size, virtual_ranks).reduce(std::move(data), mine.count()));
  }

  /// The first node becomes the sum of all.
  void operator()(std::span<void* const> nodes, int64_t elements) {
    char* const result = static_cast<char*>(nodes[0]);
    if (size == 1 || bytes_of(elements, element) <= kExchangeAllBelow)
      return run(
          nodes,
          [&](int) {
            return Part{0, elements};
          },
          [&](void* sums) {
            if (sums != result) std::memcpy(result, sums, bytes_of(elements, element));
          });
    const auto part = [&](int r) { return part_of(elements, r, size); };
    const Part mine = part(rank);
    char* const own = at(result, mine.begin, element);
    run(nodes, part, [&](void* sums) {
      if (sums != own) std::memcpy(own, sums, bytes_of(mine.count(), element));
    });
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const Part theirs = part(peer);
      out.push_back({peer, own, bytes_of(mine.count(), element)});
      in.push_back({peer, at(result, theirs.begin, element), bytes_of(theirs.count(), element)});
    }
    transport.exchange(call, out, in);
  }
};

// --- on tensors
// -----------------------------------------------------------------------------------

/// The tensors' elements one after the other; one tensor alone as it lies.
class Packed {
 public:
  Packed(const Context& context, std::span<Tensor> tensors) : tensors_(tensors) {
    for (const Tensor& t : tensors) elements_ += t.numel();
    if (tensors.size() == 1) {
      data_ = tensors[0].raw();
      return;
    }
    memory_.emplace(bytes_of(elements_, size()), context.stream, context.scratch);
    data_ = memory_->as<char>();
  }
  void* data() const { return data_; }
  int64_t elements() const { return elements_; }
  void pack() {
    each([](void* tensor, void* packed, size_t bytes) { std::memcpy(packed, tensor, bytes); });
  }
  void unpack() {
    each([](void* tensor, void* packed, size_t bytes) { std::memcpy(tensor, packed, bytes); });
  }

 private:
  size_t size() const { return size_of(tensors_[0].dtype()); }
  template <class F>
  void each(const F& f) {
    if (!memory_) return;
    char* packed = static_cast<char*>(data_);
    for (const Tensor& t : tensors_) {
      const size_t bytes = bytes_of(t.numel(), size());
      if (bytes > 0) f(t.raw(), packed, bytes);
      packed += bytes;
    }
  }

  std::span<Tensor> tensors_;
  int64_t elements_ = 0;
  std::optional<Workspace> memory_;
  void* data_ = nullptr;
};

Call call_of(CallKind kind, std::span<const Tensor> tensors, const CollectiveOptions& options) {
  Call call{.shapes = options.which,
            .tensors = static_cast<uint32_t>(tensors.size()),
            .virtual_ranks = static_cast<uint32_t>(options.virtual_ranks),
            .root = options.root,
            .kind = kind,
            .dtype = tensors.empty() ? DType::f32 : tensors[0].dtype(),
            .reduce = options.reduce};
  for (const Tensor& t : tensors) {
    call.elements += t.numel();
    call.shapes = splitmix64(call.shapes ^ static_cast<uint64_t>(t.rank()));
    for (const int64_t n : t.shape())
      call.shapes = splitmix64(call.shapes ^ static_cast<uint64_t>(n));
  }
  return call;
}

using InPlace =
    backend::Kernel<void(const Context&, std::span<Tensor> tensors, const CollectiveOptions&)>;
using OutOfPlace =
    backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, const CollectiveOptions&)>;

void all_reduce_kernel(const Context& context, std::span<Tensor> tensors,
                       const CollectiveOptions& o) {
  const diag::Span span("all_reduce", diag::Cause::communication);
  ProcessGroup& group = *o.group;
  const int64_t virtual_ranks = o.virtual_ranks > 0 ? o.virtual_ranks : group.size();
  const size_t count = nodes_of(group.rank(), group.size(), virtual_ranks).size();
  const size_t each = tensors.size() / count;
  std::vector<std::unique_ptr<Packed>> nodes;  // of one node after the other
  std::vector<void*> data;
  for (size_t k = 0; k < count; ++k) {
    nodes.push_back(std::make_unique<Packed>(context, tensors.subspan(k * each, each)));
    nodes.back()->pack();
    data.push_back(nodes.back()->data());
  }
  group.run(call_of(CallKind::all_reduce, tensors.first(each), o),
            [&](Transport& transport, const Call& call) {
              AllReduce{transport, call, context, virtual_ranks}(data, nodes[0]->elements());
            });
  nodes[0]->unpack();
}

void broadcast_kernel(const Context& context, std::span<Tensor> tensors,
                      const CollectiveOptions& o) {
  const diag::Span span("broadcast", diag::Cause::communication);
  ProcessGroup& group = *o.group;
  Packed packed(context, tensors);
  if (group.rank() == o.root) packed.pack();
  group.run(call_of(CallKind::broadcast, tensors, o), [&](Transport& transport, const Call& call) {
    const size_t bytes = bytes_of(packed.elements(), size_of(call.dtype));
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    if (group.rank() != o.root)
      in.push_back({o.root, packed.data(), bytes});
    else
      for (int peer = 0; peer < group.size(); ++peer)
        if (peer != o.root) out.push_back({peer, packed.data(), bytes});
    transport.exchange(call, out, in);
  });
  if (group.rank() != o.root) packed.unpack();
}

/// Sends x's part for each peer, or all of x, and receives y's from each.
void exchange_rows(Transport& transport, const Call& call, const void* x, bool x_has_rows, void* y,
                   size_t row) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  const auto row_of = [&](int r) { return static_cast<size_t>(r) * row; };
  const char* const from = static_cast<const char*>(x);
  char* const to = static_cast<char*>(y);
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) {
      if (row > 0) std::memcpy(to + row_of(peer), from + (x_has_rows ? row_of(peer) : 0), row);
      continue;
    }
    out.push_back({peer, from + (x_has_rows ? row_of(peer) : 0), row});
    in.push_back({peer, to + row_of(peer), row});
  }
  transport.exchange(call, out, in);
}

void all_gather_kernel(const Context&, const Tensor& x, Tensor& y, const CollectiveOptions& o) {
  const diag::Span span("all_gather", diag::Cause::communication);
  o.group->run(call_of(CallKind::all_gather, {&x, 1}, o), [&](Transport& t, const Call& call) {
    exchange_rows(t, call, x.raw(), false, y.raw(), bytes_of(x.numel(), size_of(x.dtype())));
  });
}

void all_to_all_kernel(const Context&, const Tensor& x, Tensor& y, const CollectiveOptions& o) {
  const diag::Span span("all_to_all", diag::Cause::communication);
  o.group->run(call_of(CallKind::all_to_all, {&x, 1}, o), [&](Transport& t, const Call& call) {
    exchange_rows(t, call, x.raw(), true, y.raw(),
                  bytes_of(x.numel() / t.size(), size_of(x.dtype())));
  });
}

void reduce_scatter_kernel(const Context& context, const Tensor& x, Tensor& y,
                           const CollectiveOptions& o) {
  const diag::Span span("reduce_scatter", diag::Cause::communication);
  const size_t row = bytes_of(y.numel(), size_of(y.dtype()));
  o.group->run(call_of(CallKind::reduce_scatter, {&x, 1}, o), [&](Transport& t, const Call& call) {
    const auto size = static_cast<size_t>(t.size());
    const Workspace scratch = context.workspace(row * size);
    exchange_rows(t, call, x.raw(), true, scratch.as<char>(), row);
    std::vector<void*> data;
    for (size_t r = 0; r < size; ++r) data.push_back(scratch.as<char>() + r * row);
    const void* const sums = NodeSums(call, t.size(), t.size()).reduce(std::move(data), y.numel());
    if (row > 0) std::memcpy(y.raw(), sums, row);
  });
}

void send_kernel(const Context&, std::span<Tensor> tensors, const CollectiveOptions& o) {
  const diag::Span span("send", diag::Cause::communication);
  const Tensor& t = tensors[0];
  o.group->run(call_of(CallKind::send, tensors, {}), [&](Transport& transport, const Call& call) {
    const Outgoing out{o.root, t.raw(), bytes_of(t.numel(), size_of(t.dtype()))};
    transport.exchange(call, {&out, 1}, {});
  });
}

void receive_kernel(const Context&, std::span<Tensor> tensors, const CollectiveOptions& o) {
  const diag::Span span("receive", diag::Cause::communication);
  const Tensor& t = tensors[0];
  o.group->run(call_of(CallKind::send, tensors, {}), [&](Transport& transport, const Call& call) {
    const Incoming in{o.root, t.raw(), bytes_of(t.numel(), size_of(t.dtype()))};
    transport.exchange(call, {}, {&in, 1});
  });
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      const auto add = [](const char* name, auto* function) {
        backend::register_kernel(name, DeviceKind::cpu, dtype_of<T>, function);
      };
      add("all_reduce", &all_reduce_kernel);
      add("broadcast", &broadcast_kernel);
      add("all_gather", &all_gather_kernel);
      add("all_to_all", &all_to_all_kernel);
      add("reduce_scatter", &reduce_scatter_kernel);
      add("send", &send_kernel);
      add("receive", &receive_kernel);
    });

// --- checks
// ---------------------------------------------------------------------------------------

void check_use(const char* op, const Tensor& t) {
  ops::check_defined(op, t);
  BRIM_CHECK(!grad_enabled() || !t.requires_grad(), AutogradError,
             "[{}] gradients do not flow between ranks; use NoGrad, or detach() the tensor", op);
}

void check_written(const char* op, const Tensor& t) {
  check_use(op, t);
  BRIM_CHECK(
      t.is_contiguous(), ShapeError,
      "[{}] a tensor of shape {} that is not contiguous; write into one that is, and copy_() "
      "from there",
      op, t.shape().str());
}

void check_written(const char* op, std::span<Tensor> tensors) {
  for (const Tensor& t : tensors) {
    check_written(op, t);
    (void)ops::common_device(op, tensors[0], t);
    (void)ops::common_dtype(op, tensors[0], t);
  }
  for (const Tensor& t : tensors) t.storage()->bump_version();
}

/// The other ranks wait for it, so a plan never leaves it out.
void keep_in_plan() {
  if (backend::LaunchRecorder* const recorder = backend::launch_recorder())
    recorder->last_launch().commit = [] {};
}

void check_reduce(const char* op, DType dtype, Reduce reduce) {
  BRIM_CHECK(dtype != DType::bool_ || reduce == Reduce::min || reduce == Reduce::max, DTypeError,
             "[{}] bool has no sum and no product; use Reduce::max for any, Reduce::min for all",
             op);
}

void check_rank(const char* op, const ProcessGroup& group, int rank) {
  BRIM_CHECK(rank >= 0 && rank < group.size(), ValueError, "[{}] rank {} of a group of {}", op,
             rank, group.size());
}

void check_rows(const char* op, const ProcessGroup& group, const Tensor& rows, const Tensor& row) {
  std::vector<int64_t> expected = {group.size()};
  expected.insert(expected.end(), row.shape().begin(), row.shape().end());
  const bool fits = rows.rank() == row.rank() + 1 &&
                    std::equal(expected.begin(), expected.end(), rows.shape().begin());
  BRIM_CHECK(fits, ShapeError, "[{}] shapes {} and {} in a group of {}; the first one is ({}, ...)",
             op, rows.shape().str(), row.shape().str(), group.size(), group.size());
}

void check_pair(const char* op, const Tensor& x, const Tensor& y) {
  check_use(op, x);
  check_written(op, y);
  (void)ops::common_device(op, x, y);
  (void)ops::common_dtype(op, x, y);
  BRIM_CHECK(x.storage() != y.storage(), ValueError, "[{}] x and y share their memory", op);
  y.storage()->bump_version();
}

}  // namespace

void all_reduce_nodes(ProcessGroup& group, std::span<Tensor> tensors, int64_t virtual_ranks,
                      uint64_t which) {
  static const InPlace kernel("all_reduce", {.operands = "rw tensors"});
  if (tensors.empty()) return;
  check_written("all_reduce", tensors);
  kernel(tensors[0].device(), tensors[0].dtype(), tensors,
         {.group = group.shared_from_this(), .virtual_ranks = virtual_ranks, .which = which});
  keep_in_plan();
}

void all_reduce(ProcessGroup& group, std::span<Tensor> tensors, Reduce reduce) {
  static const InPlace kernel("all_reduce", {.operands = "rw tensors"});
  if (tensors.empty()) return;
  check_written("all_reduce", tensors);
  check_reduce("all_reduce", tensors[0].dtype(), reduce);
  kernel(tensors[0].device(), tensors[0].dtype(), tensors,
         {.group = group.shared_from_this(), .reduce = reduce});
  keep_in_plan();
}
void all_reduce(ProcessGroup& group, Tensor& tensor, Reduce reduce) {
  all_reduce(group, std::span(&tensor, 1), reduce);
}

void broadcast(ProcessGroup& group, std::span<Tensor> tensors, int root) {
  static const InPlace kernel("broadcast", {.operands = "rw tensors"});
  if (tensors.empty()) return;
  check_written("broadcast", tensors);
  check_rank("broadcast", group, root);
  kernel(tensors[0].device(), tensors[0].dtype(), tensors,
         {.group = group.shared_from_this(), .root = root});
  keep_in_plan();
}
void broadcast(ProcessGroup& group, Tensor& tensor, int root) {
  broadcast(group, std::span(&tensor, 1), root);
}

void all_gather(ProcessGroup& group, const Tensor& x, Tensor& y) {
  static const OutOfPlace kernel("all_gather", {.operands = "x, y"});
  check_pair("all_gather", x, y);
  check_rows("all_gather", group, y, x);
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y, {.group = group.shared_from_this()});
  keep_in_plan();
}

void reduce_scatter(ProcessGroup& group, const Tensor& x, Tensor& y, Reduce reduce) {
  static const OutOfPlace kernel("reduce_scatter", {.operands = "x, y"});
  check_pair("reduce_scatter", x, y);
  check_rows("reduce_scatter", group, x, y);
  check_reduce("reduce_scatter", x.dtype(), reduce);
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y,
         {.group = group.shared_from_this(), .reduce = reduce});
  keep_in_plan();
}

void all_to_all(ProcessGroup& group, const Tensor& x, Tensor& y) {
  static const OutOfPlace kernel("all_to_all", {.operands = "x, y"});
  check_pair("all_to_all", x, y);
  BRIM_CHECK(x.shape() == y.shape() && x.rank() > 0 && x.size(0) == group.size(), ShapeError,
             "[all_to_all] shapes {} and {} in a group of {}; both are ({}, ...)", x.shape().str(),
             y.shape().str(), group.size(), group.size());
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y, {.group = group.shared_from_this()});
  keep_in_plan();
}

namespace {

void to_or_from(const char* op, const InPlace& kernel, ProcessGroup& group, Tensor tensor,
                int rank) {
  refuse_in_recording(op, "what it does depends on the rank; call it outside the step");
  check_rank(op, group, rank);
  BRIM_CHECK(rank != group.rank(), ValueError, "[{}] rank {} and this rank are the same", op, rank);
  kernel(tensor.device(), tensor.dtype(), std::span(&tensor, 1),
         {.group = group.shared_from_this(), .root = rank});
}

}  // namespace

void send(ProcessGroup& group, const Tensor& tensor, int to) {
  static const InPlace kernel("send", {.operands = "rw tensors"});
  check_use("send", tensor);
  to_or_from("send", kernel, group, tensor.detach().contiguous(), to);
}

void receive(ProcessGroup& group, Tensor& tensor, int from) {
  static const InPlace kernel("receive", {.operands = "rw tensors"});
  check_written("receive", std::span(&tensor, 1));
  to_or_from("receive", kernel, group, tensor, from);
}

}  // namespace brim::dist
