// The tape: one Node per differentiable op, with edges to the nodes that made its inputs. An op
// attaches its gradient with with_grad(), right where it computes its output.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/core/tensor.h>
#include <brim/extend/gradient.h>

namespace brim::autograd {

using extend::GradCall;
using extend::Inputs;
using extend::needs_grad;
using extend::Saved;

class Node;

struct Edge {
  Ref<Node> node;  // null: this input needs no gradient
  uint32_t index = 0;
};

struct OutputInfo {
  Shape shape;
  DType dtype;
  Device device;
};

using Hook = std::function<Tensor(const Tensor&)>;
using GradHook = std::function<void(Tensor&)>;

struct Meta;
struct HookEntry {
  uint32_t output;
  int id;
  Hook hook;
};

class Node : public RefCounted {
 public:
  explicit Node(const char* name);
  virtual ~Node();

  /// Computes the gradients of the inputs that need one.
  virtual void backward(GradCall& call) = 0;
  /// Drops saved tensors; where there were any, backward throws afterwards.
  virtual void free_saved() = 0;
  /// The hooks of all outputs.
  virtual const std::vector<HookEntry>& all_hooks() const { return hooks; }

  const char* name;
  uint64_t sequence;  // later ops have larger numbers; backward runs from large to small
  std::vector<Edge> next;
  std::vector<OutputInfo> outputs;
  std::vector<HookEntry> hooks;
  std::vector<Meta*> retained;  // of outputs that keep their gradient; each leaves when it ends
};

/// Autograd's part of a tensor.
struct Meta {
  bool requires_grad = false;
  bool retain_grad = false;
  uint32_t index = 0;           // which output of `node` this tensor is
  Ref<Node> node;               // null for leaves
  Node* accumulator = nullptr;  // of a leaf; owned by the graph, cleared when that ends
  Tensor grad;
  std::vector<HookEntry> hooks;                      // of a leaf; others keep them in the node
  std::vector<std::pair<int, GradHook>> grad_hooks;  // of a leaf, with their ids
};

/// The Meta of a tensor, made on demand.
Meta& meta_of(const Tensor& t);
/// Where a gradient of `t` flows: its node, its leaf accumulator, or nowhere.
Edge edge_of(const Tensor& t);

[[noreturn]] void throw_released(const char* name);

/// A gradient function that saves no tensors, though its captures have a destructor.
template <class F>
struct SavesNothing : F {};
template <class F>
SavesNothing(F) -> SavesNothing<F>;

template <class F>
constexpr bool kSavesNothing = std::is_trivially_destructible_v<F>;
template <class F>
constexpr bool kSavesNothing<SavesNothing<F>> = true;

template <class F>
class OpNode final : public Node {
 public:
  OpNode(const char* name, F&& gradient) : Node(name), gradient_(std::move(gradient)) {}
  void backward(GradCall& call) override {
    if (!gradient_) throw_released(name);
    (*gradient_)(call);
  }
  void free_saved() override {
    if constexpr (!kSavesNothing<F>) gradient_.reset();
  }

 private:
  std::optional<F> gradient_;
};

/// As that of Inputs.
bool needs_grad(std::span<const Tensor> inputs);
void connect(Node& node, const Tensor& input);       // appends an edge
void attach(const Ref<Node>& node, Tensor& output);  // makes `output` the node's next output

/// What both forms of with_grad() do. List: of inputs.
template <class List, class F>
Tensor with_history(const char* name, Tensor y, const List& inputs, F&& gradient) {
  if (!is_floating(y.dtype()) || !needs_grad(inputs)) return y;
  Ref<Node> node(new OpNode<std::decay_t<F>>(name, std::forward<F>(gradient)));
  node->next.reserve(inputs.size());
  for (const Tensor& input : inputs) connect(*node, input);
  attach(node, y);
  return y;
}

/// Returns `y`, with `gradient(GradCall&)` as its history if an input requires a gradient. The
/// gradient is written with ops, so that it can itself be differentiated. Undefined inputs are
/// allowed and need no gradient.
template <class F>
Tensor with_grad(const char* name, Tensor y, Inputs inputs, F&& gradient) {
  return with_history(name, std::move(y), inputs, std::forward<F>(gradient));
}

/// The same for an op with a list of inputs (cat, stack).
template <class F>
Tensor with_grad(const char* name, Tensor y, std::span<const Tensor> inputs, F&& gradient) {
  return with_history(name, std::move(y), inputs, std::forward<F>(gradient));
}

/// The same for an op with several outputs of one input: `gradient` sees dy(i) of the i-th.
template <class F>
std::vector<Tensor> with_grad(const char* name, std::vector<Tensor> outputs, const Tensor& input,
                              F&& gradient) {
  if (!is_floating(input.dtype()) || !needs_grad({input})) return outputs;
  Ref<Node> node(new OpNode<std::decay_t<F>>(name, std::forward<F>(gradient)));
  connect(*node, input);
  for (Tensor& output : outputs) attach(node, output);
  return outputs;
}

/// True when several elements of `t` share memory through a stride of 0.
bool is_expanded(const Tensor& t);
/// Throws AutogradError when `t` may not be written in place (it, or what is written into it,
/// requires a gradient and gradients are enabled), ValueError when it is expanded; else counts the
/// write.
void check_in_place(const char* op, const Tensor& t, Inputs sources = {});
/// The same for an op that records what it writes (record_in_place): AutogradError only for a leaf
/// that requires a gradient, and where other tensors share the memory: their history would be old.
void check_recordable(const char* op, const Tensor& t, Inputs sources = {});
/// Takes t's history over to `node`, whose first edge it becomes.
void rebase(const Ref<Node>& node, Tensor& t);

/// Makes `gradient(GradCall&)` the history of `t`, which an op has written in place, if `t` or a
/// source requires a gradient. Input 0 is what `t` was before, the others are the sources.
template <class F>
void record_in_place(const char* name, Tensor& t, Inputs sources, F&& gradient) {
  if (!is_floating(t.dtype()) || !(needs_grad({t}) || needs_grad(sources))) return;
  Ref<Node> node(new OpNode<std::decay_t<F>>(name, std::forward<F>(gradient)));
  node->next.reserve(sources.size() + 1);
  connect(*node, t);
  for (const Tensor& source : sources) connect(*node, source);
  rebase(node, t);
}

}  // namespace brim::autograd
