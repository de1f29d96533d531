// Nodes, saved tensors and the connection of tensors to the tape.
#include "autograd/node.h"

#include <atomic>

#include <brim/ops/create.h>

#include "core/check.h"
#include "diag/span.h"

namespace brim::autograd {
namespace {

thread_local constinit bool grad_mode [[gnu::tls_model("initial-exec")]] = true;
std::atomic<uint64_t> next_sequence{0};

/// Ends nodes one after the other instead of recursively: a graph may be a million nodes deep.
void bury(Ref<Node> node) {
  // The list is the outermost call's: tensors of static lifetime outlive the thread's own objects.
  thread_local constinit std::vector<Ref<Node>>* pending = nullptr;
  if (!node) return;
  if (pending) return pending->push_back(std::move(node));
  if (node->use_count() > 1) return;
  const diag::Span span("end of a graph", diag::Cause::dispatch);
  std::vector<Ref<Node>> list;
  pending = &list;
  node.reset();  // puts its inputs' nodes on the list, if it ends here
  while (!list.empty()) {
    Ref<Node> last = std::move(list.back());
    list.pop_back();
    last.reset();
  }
  pending = nullptr;
}

}  // namespace

Node::Node(const char* name)
    : name(name), sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

Node::~Node() {
  for (Edge& edge : next) bury(std::move(edge.node));
}

void MetaDeleter::operator()(Meta* meta) const {
  if (meta->retain_grad && meta->node) std::erase(meta->node->retained, meta);
  bury(std::move(meta->node));
  delete meta;
}

Meta& meta_of(const Tensor& t) {
  auto& meta = t.impl()->autograd;
  if (!meta) meta.reset(new Meta);
  return *meta;
}

void throw_released(const char* name) {
  raise<AutogradError>(
      "[{}] backward ran through this graph before and freed it; pass {{.retain_graph = true}} to "
      "the first backward",
      name);
}

bool needs_grad(std::span<const Tensor> inputs) {
  if (!grad_mode) return false;
  for (const Tensor& t : inputs)
    if (t.defined() && t.requires_grad()) return true;
  return false;
}

void connect(Node& node, const Tensor& input) { node.next.push_back(edge_of(input)); }

void attach(const Ref<Node>& node, Tensor& output) {
  Meta& meta = meta_of(output);
  meta.requires_grad = true;
  meta.node = node;
  meta.index = static_cast<uint32_t>(node->outputs.size());
  node->outputs.push_back({output.shape(), output.dtype(), output.device()});
}

bool is_expanded(const Tensor& t) {
  for (int i = 0; i < t.rank(); ++i)
    if (t.strides()[i] == 0 && t.shape()[i] > 1) return true;
  return false;
}

void rebase(const Ref<Node>& node, Tensor& t) {
  Meta& meta = meta_of(t);
  if (meta.retain_grad && meta.node) {
    std::erase(meta.node->retained, &meta);
    node->retained.push_back(&meta);
  }
  attach(node, t);
}

namespace {

void check_not_expanded(const char* op, const Tensor& t) {
  BRIM_CHECK(!is_expanded(t), ValueError,
             "[{}] writes into an expanded tensor of shape {}, whose elements share memory; "
             "clone() it first",
             op, t.shape().str());
}

}  // namespace

void check_recordable(const char* op, const Tensor& t, Inputs sources) {
  check_not_expanded(op, t);
  if (is_floating(t.dtype()) && (needs_grad({t}) || needs_grad(sources))) {
    BRIM_CHECK(!(t.requires_grad() && t.is_leaf()), AutogradError,
               "[{}] writes in place into a leaf that requires a gradient, which would lose it; "
               "use the out-of-place op, or a NoGrad scope",
               op);
    BRIM_CHECK(t.storage()->use_count() == 1, AutogradError,
               "[{}] writes in place where gradients are recorded, into memory that other tensors "
               "share (views, or what a gradient keeps), whose history would be old; use the "
               "out-of-place op (for parts: slice_scatter, select_scatter, cat), or a NoGrad scope",
               op);
  }
  t.storage()->bump_version();
}

void check_in_place(const char* op, const Tensor& t, Inputs sources) {
  check_not_expanded(op, t);
  if (grad_mode) {
    BRIM_CHECK(!(needs_grad({t}) || needs_grad(sources)), AutogradError,
               "[{}] writes in place where gradients are recorded, which would lose them; use the "
               "out-of-place op, or a NoGrad scope",
               op);
  }
  t.storage()->bump_version();
}

}  // namespace brim::autograd

namespace brim {

bool grad_enabled() { return autograd::grad_mode; }

GradMode::GradMode(bool enabled) : previous_(autograd::grad_mode) { autograd::grad_mode = enabled; }
GradMode::~GradMode() { autograd::grad_mode = previous_; }

}  // namespace brim

namespace brim::extend {

Saved::Saved(const Tensor& input)
    : tensor_(input), version_(input.defined() ? input.storage()->version() : 0) {}

Saved Saved::output(const Tensor& y, uint32_t index) {
  Saved s(y.alias(y.shape(), y.strides(), y.offset()));
  s.is_output_ = true;
  s.index_ = index;
  return s;
}

Tensor Saved::get(const autograd::Node& node) const {
  if (!tensor_.defined()) return tensor_;
  BRIM_CHECK(tensor_.storage()->version() == version_, AutogradError,
             "[{}] a tensor of shape {} that its gradient needs was overwritten in place; use the "
             "out-of-place op, or clone it first",
             node.name, tensor_.shape().str());
  if (!is_output_ || !grad_enabled()) return tensor_;
  Tensor y = tensor_.alias(tensor_.shape(), tensor_.strides(), tensor_.offset());
  autograd::Meta& meta = autograd::meta_of(y);
  meta.requires_grad = true;
  meta.node = Ref<autograd::Node>(const_cast<autograd::Node*>(&node));
  meta.index = index_;
  return y;
}

void GradCall::no_such(const char* what, size_t index, size_t count) const {
  throw IndexError(fmt::format("[{}] its gradient asks for {} {} of {}; they count from 0",
                               node_.name, what, index, count));
}

const Tensor& GradCall::dy(uint32_t i) {
  if (i >= dy_.size()) [[unlikely]]
    no_such("output", i, dy_.size());
  if (!dy_[i].defined()) {
    const autograd::OutputInfo& info = node_.outputs[i];
    dy_[i] = zeros(info.shape, {.dtype = info.dtype, .device = info.device});
  }
  return dy_[i];
}

bool GradCall::has_dy(uint32_t i) const {
  if (i >= dy_.size()) [[unlikely]]
    no_such("output", i, dy_.size());
  return dy_[i].defined();
}

bool GradCall::needs(size_t input) const {
  check_input(input);
  return static_cast<bool>(node_.next[input].node);
}

bool needs_grad(Inputs inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : inputs)
    if (t.defined() && t.requires_grad()) return true;
  return false;
}

void attach_gradient(const char* name, std::span<Tensor> outputs, Inputs inputs,
                     Gradient gradient) {
  auto as_user = [gradient = std::move(gradient)](GradCall& g) {
    const diag::Span span("gradient", diag::Cause::user);
    gradient(g);
  };
  Ref<autograd::Node> node(new autograd::OpNode<decltype(as_user)>(name, std::move(as_user)));
  node->next.reserve(inputs.size());
  for (const Tensor& input : inputs) autograd::connect(*node, input);
  for (Tensor& y : outputs) autograd::attach(node, y);
}

}  // namespace brim::extend
