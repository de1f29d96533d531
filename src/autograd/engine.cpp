// The backward pass: nodes run in the reverse of the order in which their ops ran, each when all
// gradients of its outputs have arrived.
#include "autograd/engine.h"

#include <limits>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include <brim/ops/binary.h>

#include "autograd/autocast.h"
#include "core/check.h"
#include "core/recording.h"
#include "diag/span.h"

namespace brim::autograd {
namespace {

// Recursive: a gradient replaced under the lock may end the graph that another leaf belongs to.
std::recursive_mutex leaf_mutex;  // guards Meta::accumulator and leaf gradients across threads
thread_local const char* backward_of = nullptr;

/// True when nobody else can see this tensor's memory, and no two of its elements share any.
bool is_exclusive(const Tensor& t) {
  return t.impl()->use_count() == 1 && t.storage()->use_count() == 1 && !is_expanded(t);
}

/// a + b, in place where that cannot be noticed.
void accumulate(Tensor& sum, Tensor&& term) {
  if (!sum.defined()) {
    sum = std::move(term);
  } else if (!grad_enabled() && is_exclusive(sum)) {
    sum.add_(term);
  } else {
    sum = sum + term;
  }
}

/// Lets hooks see and replace gradients. `hooks` is a copy, since a hook may add or remove hooks.
void run_hooks(std::vector<HookEntry> hooks, std::span<Tensor> dy) {
  for (const HookEntry& h : hooks)
    if (Tensor& g = dy[h.output]; g.defined()) {
      const diag::Span span("hook", diag::Cause::user);
      if (Tensor replaced = h.hook(g); replaced.defined()) g = std::move(replaced);
    }
}

/// The end of the tape at a leaf: adds what arrives to the leaf's grad.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : Node("accumulate_grad"), leaf_(leaf) {
    sequence = std::numeric_limits<uint64_t>::max();
    outputs.push_back({leaf.shape(), leaf.dtype(), leaf.device()});
  }
  ~AccumulateGrad() override {
    const std::lock_guard lock(leaf_mutex);
    if (Meta& meta = meta_of(leaf_); meta.accumulator == this) meta.accumulator = nullptr;
  }

  void backward(GradCall& call) override {
    accumulate_into_leaf(call.take_dy());
    // A copy, since a hook may add or remove hooks.
    for (const auto& [id, hook] : std::vector(meta_of(leaf_).grad_hooks)) {
      const diag::Span span("hook", diag::Cause::user);
      hook(leaf_);
    }
  }
  void free_saved() override {}
  const std::vector<HookEntry>& all_hooks() const override { return meta_of(leaf_).hooks; }

 private:
  void accumulate_into_leaf(Tensor g) {
    Meta& meta = meta_of(leaf_);
    const std::lock_guard lock(leaf_mutex);
    if (recording) [[unlikely]]
      recording->grad_changes(*leaf_.impl(), false);
    if (meta.grad.defined() && !grad_enabled()) {
      meta.grad.add_(g);
    } else if (meta.grad.defined()) {
      meta.grad = meta.grad + g;
    } else {
      const bool own =
          is_exclusive(g) && (g.is_contiguous() || g.is_contiguous(MemoryFormat::nhwc));
      meta.grad = own ? std::move(g) : g.clone();
    }
  }

  Tensor leaf_;
};

struct Task {
  std::vector<Tensor> dy;
  int waiting = 0;  // edges from nodes that have not run yet
};

struct LaterFirst {
  bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
};

void count_dependencies(const std::vector<Node*>& roots, std::unordered_map<Node*, Task>& tasks) {
  std::vector<Node*> stack;
  for (Node* root : roots)
    if (tasks.try_emplace(root).second) stack.push_back(root);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->next) {
      if (!edge.node) continue;
      const auto [it, fresh] = tasks.try_emplace(edge.node.get());
      ++it->second.waiting;
      if (fresh) stack.push_back(edge.node.get());
    }
  }
}

void check_gradient(const Node& from, const Edge& to, const Tensor& g) {
  const OutputInfo& want = to.node->outputs[to.index];
  BRIM_CHECK(g.shape() == want.shape && g.dtype() == want.dtype && g.device() == want.device,
             AutogradError,
             "[{}] its gradient is {} {} on {}, but the input is {} {} on {}; the op's gradient "
             "function is wrong",
             from.name, g.shape().str(), name(g.dtype()), g.device().str(), want.shape.str(),
             name(want.dtype), want.device.str());
}

}  // namespace

const char* current_backward() { return backward_of; }

Edge edge_of(const Tensor& t) {
  if (!t.defined() || !t.requires_grad()) return {};
  Meta& meta = meta_of(t);
  if (meta.node) return {meta.node, meta.index};
  const std::lock_guard lock(leaf_mutex);
  // try_retain fails where another thread is just ending the accumulator.
  if (meta.accumulator && meta.accumulator->try_retain()) {
    Edge edge{Ref<Node>(meta.accumulator), 0};
    (void)meta.accumulator->release();  // the edge holds its own count now
    return edge;
  }
  Ref<Node> node(new AccumulateGrad(t));
  meta.accumulator = node.get();
  return {node, 0};
}

std::vector<Tensor> run_backward(std::span<const Tensor> outputs,
                                 std::span<const Tensor> grad_outputs,
                                 std::span<const Tensor> inputs, BackwardOptions options) {
  const diag::Span span("backward", diag::Cause::dispatch);
  const GradMode mode(options.create_graph);
  const AutocastPause exact;  // gradients have the dtypes of the forward pass
  const bool keep = options.retain_graph || options.create_graph;

  std::vector<Edge> roots;
  std::vector<Node*> root_nodes;
  for (const Tensor& output : outputs) {
    roots.push_back(edge_of(output));
    root_nodes.push_back(roots.back().node.get());
  }
  std::vector<Tensor> captured(inputs.size());
  std::unordered_multimap<Node*, size_t> capture_at;  // node -> index of the input it makes
  std::vector<Edge> input_edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_edges.push_back(edge_of(inputs[i]));
    capture_at.emplace(input_edges[i].node.get(), i);
  }

  std::unordered_map<Node*, Task> tasks;
  tasks.reserve(128);
  count_dependencies(root_nodes, tasks);
  std::priority_queue<Node*, std::vector<Node*>, LaterFirst> ready;
  std::unordered_set<Node*> queued;
  for (size_t i = 0; i < roots.size(); ++i) {
    Task& task = tasks[root_nodes[i]];
    task.dy.resize(root_nodes[i]->outputs.size());
    Tensor g = grad_outputs[i];
    accumulate(task.dy[roots[i].index], std::move(g));
    if (task.waiting == 0 && queued.insert(root_nodes[i]).second) ready.push(root_nodes[i]);
  }

  // Nodes are kept alive by their consumers' edges; the roots by `roots`.
  std::vector<Tensor> dx;
  while (!ready.empty()) {
    Node* node = ready.top();
    ready.pop();
    Task task = std::move(tasks[node]);
    task.dy.resize(node->outputs.size());
    const bool is_leaf = node->sequence == std::numeric_limits<uint64_t>::max();
    if (inputs.empty()) {
      run_hooks(node->all_hooks(), task.dy);
    } else {
      const auto [begin, end] = capture_at.equal_range(node);
      const bool wanted = !is_leaf || begin != end;
      if (wanted) run_hooks(node->all_hooks(), task.dy);
      for (auto it = begin; it != end; ++it)
        captured[it->second] = task.dy[input_edges[it->second].index];
    }
    for (Meta* meta : node->retained)
      if (const Tensor& g = task.dy[meta->index]; g.defined())
        meta->grad = meta->grad.defined() ? meta->grad + g : g;
    dx.assign(node->next.size(), Tensor());
    bool any = false;
    for (const Tensor& g : task.dy) any |= g.defined();
    if (any && !(is_leaf && !inputs.empty())) {
      backward_of = node->name;
      GradCall call(*node, task.dy, dx);
      try {
        node->backward(call);
      } catch (...) {
        backward_of = nullptr;
        throw;
      }
      backward_of = nullptr;
    }
    task.dy.clear();
    for (size_t i = 0; i < node->next.size(); ++i) {
      const Edge& edge = node->next[i];
      if (!edge.node) continue;
      Task& next = tasks[edge.node.get()];
      if (dx[i].defined()) {
        check_gradient(*node, edge, dx[i]);
        if (next.dy.empty()) next.dy.resize(edge.node->outputs.size());
        accumulate(next.dy[edge.index], std::move(dx[i]));
      }
      if (--next.waiting == 0) ready.push(edge.node.get());
    }
    if (!keep) node->free_saved();
  }
  return captured;
}

}  // namespace brim::autograd
