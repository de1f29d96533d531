// Listing, moving, saving and loading of what modules own.
#include <brim/nn/module.h>

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <typeinfo>

#include <brim/autograd/autograd.h>

#include "core/check.h"
#include "core/first_names.h"
#include "core/hash.h"
#include "core/recording.h"
#include "nn/eval_mode.h"
#include "nn/modes.h"
#include "nn/module_calls.h"

namespace brim::nn {
namespace {

std::atomic<uint64_t> modes{0};  // exclusive or over the modules in eval mode

void flip_mode(const Module& m) { modes.fetch_xor(splitmix64(reinterpret_cast<uintptr_t>(&m))); }

}  // namespace

thread_local constinit ModuleListener* module_listener [[gnu::tls_model("initial-exec")]] = nullptr;

uint64_t training_modes() { return modes.load(std::memory_order_relaxed); }

ModeKey::ModeKey()
    : key_([] {
        static std::atomic<uint64_t> count{0};
        return splitmix64(~count.fetch_add(1, std::memory_order_relaxed));
      }()) {
  modes.fetch_xor(key_);
}
ModeKey::~ModeKey() { modes.fetch_xor(key_); }

struct Module::Hook {
  explicit Hook(ForwardHook f) : call(std::move(f)) {}
  ForwardHook call;
  ModeKey key;
};

std::string Module::kind() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  std::string full = status == 0 ? text.get() : typeid(*this).name();
  full.resize(std::min(full.size(), full.find('<')));  // ModuleList<...>
  const size_t colons = full.rfind("::");
  return colons == std::string::npos ? full : full.substr(colons + 2);
}

Tensor Module::forward_with_hooks(const Tensor& x) {
  const Hooks hooks = *hooks_;  // a hook may remove itself
  const ModuleCall call(*this);
  Tensor y = forward(x);
  for (const std::shared_ptr<Hook>& hook : hooks)
    if (Tensor other = hook->call(*this, x, y); other.defined()) y = std::move(other);
  return y;
}

Module::HookHandle Module::register_forward_hook(ForwardHook hook) {
  BRIM_CHECK(hook, ValueError, "[register_forward_hook] the hook is empty");
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  hooks_->push_back(std::make_shared<Hook>(std::move(hook)));
  return {hooks_, hooks_->back()};
}

Module::HookHandle& Module::HookHandle::operator=(HookHandle&& other) noexcept {
  if (this == &other) return *this;
  remove();
  hooks_ = std::move(other.hooks_);
  hook_ = std::move(other.hook_);
  return *this;
}

void Module::HookHandle::remove() {
  const std::shared_ptr<Hook> hook = hook_.lock();
  if (const std::shared_ptr<Hooks> hooks = hooks_.lock()) std::erase(*hooks, hook);
  hooks_.reset();
  hook_.reset();
}

Tensor Module::forward(const Tensor&) {
  raise<NotImplemented>("[{}] has no forward(const Tensor&); override it, or call the one it has",
                        kind());
}

// --- building

void Module::check_name(const std::string& name) const {
  BRIM_CHECK(!name.empty() && name.find('.') == std::string::npos, ValueError,
             "[{}] '{}' cannot name a part; names are not empty and have no dot", kind(), name);
  bool taken = false;
  for (const Entry& entry : tensors_) taken |= entry.name == name;
  for (const auto& [child, module] : children_) taken |= child == name;
  BRIM_CHECK(!taken, ValueError, "[{}] there are two parts called '{}'; rename one", kind(), name);
}

Tensor& Module::add_tensor(std::string name, Tensor value, bool trained) {
  check_name(name);
  if (trained && value.defined()) value.set_requires_grad();
  return tensors_.emplace_back(Entry{std::move(name), std::move(value), trained}).value;
}

Tensor& Module::parameter(std::string name, Tensor value) {
  return add_tensor(std::move(name), std::move(value), true);
}

Tensor& Module::buffer(std::string name, Tensor value) {
  return add_tensor(std::move(name), std::move(value), false);
}

void Module::add_child(std::string name, std::unique_ptr<Module> child) {
  check_name(name);
  BRIM_CHECK(child != nullptr, ValueError, "[{}] the module '{}' is null", kind(), name);
  children_.emplace_back(std::move(name), std::move(child));
}

// --- parameters that wait for the first call

void Module::defer_parameters(const DeferredParameters& how) {
  deferred_ = std::make_unique<DeferredParameters>(how);
}

void Module::make_deferred(const std::function<void(const DeferredParameters& how)>& make) {
  const RecordingPause pause;
  const NoGrad guard;
  make(*deferred_);
  for (Entry& entry : tensors_)
    if (entry.trained && entry.value.defined()) entry.value.set_requires_grad();
  deferred_.reset();
}

void Module::check_parameters_made(const std::string& prefix) const {
  BRIM_CHECK(!deferred_, ValueError,
             "[{}] {} has no parameters yet: it infers its input size at the first call; call the "
             "network once before, as net.initialize(sample), or give the layer its input size",
             kind(), prefix.empty() ? "it" : fmt::format("'{}'", prefix));
  for (const auto& [name, child] : children_)
    child->check_parameters_made(prefix.empty() ? name : prefix + "." + name);
}

Module& Module::initialize(const Tensor& sample) {
  const EvalMode eval(*this);
  const NoGrad guard;
  (*this)(sample);
  return *this;
}

// --- listing

void Module::visit_tensors(const std::string& prefix,
                           const std::function<void(const std::string&, Entry&)>& visit) {
  for (Entry& entry : tensors_)
    if (entry.value.defined()) visit(prefix + entry.name, entry);
  for (auto& [name, child] : children_) child->visit_tensors(prefix + name + ".", visit);
}

void Module::visit_tensors(
    const std::string& prefix,
    const std::function<void(const std::string&, const Entry&)>& visit) const {
  const_cast<Module*>(this)->visit_tensors(prefix,
                                           std::function<void(const std::string&, Entry&)>(visit));
}

NamedTensors Module::list(bool trained) const {
  NamedTensors found;
  std::set<const TensorImpl*> seen;
  visit_tensors("", [&](const std::string& name, const Entry& entry) {
    if (entry.trained == trained && seen.insert(entry.value.impl()).second)
      found.emplace_back(name, entry.value);
  });
  return found;
}

NamedTensors Module::named_parameters() const {
  check_parameters_made();
  return list(true);
}
NamedTensors Module::named_buffers() const {
  check_parameters_made();
  return list(false);
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> values;
  for (auto& [name, value] : named_parameters()) values.push_back(value);
  return values;
}

int64_t Module::num_parameters() const {
  int64_t count = 0;
  for (const auto& [name, value] : named_parameters()) count += value.numel();
  return count;
}

std::vector<std::pair<std::string, Module*>> Module::named_children() const {
  std::vector<std::pair<std::string, Module*>> found;
  for (const auto& [name, child] : children_) found.emplace_back(name, child.get());
  return found;
}

void Module::apply(const std::function<void(Module&)>& visit) {
  visit(*this);
  for (auto& [name, child] : children_) child->apply(visit);
}

// --- changing

void Module::replace_all(const std::function<Tensor(const Tensor&)>& change) {
  const NoGrad guard;
  std::set<const TensorImpl*> seen;
  visit_tensors("", [&](const std::string&, Entry& entry) {
    Tensor& value = entry.value;
    if (!seen.insert(value.impl()).second) return;
    const Tensor before = value.detach();
    const Tensor after = change(before);
    if (after.is_same(before)) return;
    const Tensor grad = value.grad();
    value.zero_grad();
    value.set_data(after);
    if (grad.defined()) value.set_grad(change(grad.detach()));
  });
}

Module& Module::to(Device device) {
  apply([&](Module& m) {
    if (m.deferred_) m.deferred_->device = device;
  });
  replace_all([&](const Tensor& t) { return t.to(device); });
  return *this;
}

Module& Module::to(DType dtype) {
  BRIM_CHECK(is_floating(dtype), DTypeError,
             "[{}] to({}): parameters are floating; choose f32 or f64", kind(), name(dtype));
  apply([&](Module& m) {
    if (m.deferred_) m.deferred_->dtype = dtype;
  });
  replace_all([&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(dtype) : t; });
  return *this;
}

Module& Module::to(MemoryFormat format) {
  check_parameters_made();
  replace_all([&](const Tensor& t) { return t.rank() == 4 ? t.to(format) : t; });
  return *this;
}

Module& Module::train(bool on) {
  refuse_in_recording("train()",
                      "the mode would be set once, when the plan is made; set it before "
                      "the step");
  apply([on](Module& m) {
    if (m.training_ != on) flip_mode(m);
    m.training_ = on;
  });
  return *this;
}

Module::~Module() {
  if (!training_) flip_mode(*this);
}

Module& Module::requires_grad(bool on) {
  for (auto& [name, value] : named_parameters()) Tensor(value).set_requires_grad(on);
  return *this;
}

void Module::zero_grad(bool set_to_none) {
  for (Tensor& value : parameters()) {
    if (set_to_none) {
      value.zero_grad();
    } else if (Tensor grad = value.grad(); grad.defined()) {
      const NoGrad guard;
      grad.zero_();
    }
  }
}

// --- state

StateDict Module::state_dict() const {
  check_parameters_made();
  StateDict state;
  visit_tensors("", [&](const std::string& name, const Entry& entry) {
    state.emplace(name, entry.value.detach());
  });
  return state;
}

LoadResult Module::load_state_dict(const StateDict& state, LoadOptions options) {
  check_parameters_made();
  LoadResult result;
  std::vector<std::string> wrong;
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::set<std::string> known;
  visit_tensors("", [&](const std::string& name, Entry& entry) {
    known.insert(name);
    const auto found = state.find(name);
    if (found == state.end() || !found->second.defined()) {
      result.missing.push_back(name);
      return;
    }
    const Tensor &from = found->second, &to = entry.value;
    if (from.shape() != to.shape())
      wrong.push_back(
          fmt::format("{} is {} instead of {}", name, from.shape().str(), to.shape().str()));
    else if (from.dtype() != to.dtype() && (is_floating(from.dtype()) != is_floating(to.dtype()) ||
                                            !is_computed(from.dtype()) || !is_computed(to.dtype())))
      wrong.push_back(fmt::format("{} is {} instead of {}", name, brim::name(from.dtype()),
                                  brim::name(to.dtype())));
    else
      copies.emplace_back(to, from);
  });
  for (const auto& [name, value] : state)
    if (!known.contains(name)) result.unexpected.push_back(name);

  std::vector<std::string> faults;
  if (options.strict && !result.missing.empty())
    faults.push_back("missing: " + first_names(result.missing));
  if (options.strict && !result.unexpected.empty())
    faults.push_back("unexpected: " + first_names(result.unexpected));
  if (!wrong.empty()) faults.push_back(first_names(wrong));
  BRIM_CHECK(faults.empty(), ValueError,
             "[{}] the state dict does not fit: {}; is it of another model?", kind(),
             fmt::join(faults, "; "));

  const NoGrad guard;
  for (auto& [to, from] : copies) to.copy_(from);
  return result;
}

std::string Module::str() const {
  std::string text = kind() + "(" + options_str();
  for (const auto& [name, child] : children_) {
    text += "\n  (" + name + "): ";
    for (char c : child->str()) {
      text += c;
      if (c == '\n') text += "  ";
    }
  }
  return text + (children_.empty() ? ")" : "\n)");
}

}  // namespace brim::nn
