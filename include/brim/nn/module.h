// Module: a part of a network. It owns its parameters, buffers and child modules under names, so
// that they can be listed, moved, saved and loaded together. A user's network inherits from it:
//
//   struct Net : nn::Module {
//     nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 6, .kernel = 5});
//     nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = 1176, .out = 10});
//     Tensor forward(const Tensor& x) override {
//       return fc1(max_pool2d(relu(conv1(x)), 2).flatten(1));
//     }
//   };
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/state_dict.h>
#include <brim/core/tensor.h>

namespace brim::nn {

/// Options of Module::load_state_dict.
struct LoadOptions {
  bool strict = true;  ///< missing and unexpected names are errors
};

/// Names that a state dict lacked, and names in it that nothing asked for.
struct LoadResult {
  std::vector<std::string> missing, unexpected;  ///< lacking there; not asked for
};

/// Where a layer that infers an input size makes its parameters, at its first call.
struct DeferredParameters {
  DType dtype = DType::f32;          ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// True for modules that are made from an aggregate of options.
template <class M>
concept HasOptions = requires {
  typename M::Options;
};

/// A part of a network, or all of it. A class of one's own derives from it, adds its parts in its
/// constructor, and overrides forward().
class Module {
 public:
  Module() = default;
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What the module computes. Modules with other inputs define a forward of their own.
  virtual Tensor forward(const Tensor& x);
  /// Calls forward(), and behind it the hooks.
  Tensor operator()(const Tensor& x) { return hooks_ ? forward_with_hooks(x) : forward(x); }

  /// Sees what goes into a module and what it computes of it, and may give another output in its
  /// place; an undefined one leaves it.
  using ForwardHook = std::function<Tensor(Module& module, const Tensor& x, const Tensor& y)>;
  /// Keeps a hook for as long as it lives. The module may go first.
  class [[nodiscard]] HookHandle;
  /// Calls `hook` behind each call of the module as module(x), the one that came last behind the
  /// others. A compiled step calls it while it is recorded, and is recorded anew where hooks come
  /// or go.
  HookHandle register_forward_hook(ForwardHook hook);

  // --- building. Names may not be empty, repeat or hold a dot (ValueError).
  /// Makes a child from its options and returns it; it lives as long as this module.
  template <HasOptions M>
  M& add(std::string name, typename M::Options options = {}) {
    return add(std::move(name), std::make_unique<M>(std::move(options)));
  }
  /// Makes a child from the arguments of its constructor.
  template <class M, class... Args>
  requires(!HasOptions<M>) M& add(std::string name, Args&&... args) {
    return add(std::move(name), std::make_unique<M>(std::forward<Args>(args)...));
  }
  /// Takes a child over and returns it.
  template <class M>
  M& add(std::string name, std::unique_ptr<M> child) {
    M* made = child.get();
    add_child(std::move(name), std::move(child));
    return *made;
  }
  /// Registers a tensor that is trained. The reference stays valid; assigning another tensor to it
  /// replaces the parameter. An undefined tensor (a bias that was switched off) is not listed.
  Tensor& parameter(std::string name, Tensor value);
  /// Registers a tensor that is saved and moved but not trained.
  Tensor& buffer(std::string name, Tensor value);

  /// For networks with layers that infer their input size, as Linear({.out = 10}) and others do:
  /// calls the network with `sample` once, in eval mode and without gradients, so that all
  /// parameters are there. sample: what forward(x) takes, one sample is enough, on the device that
  /// the layers are on. A first call as net(x) does the same, and trains.
  Module& initialize(const Tensor& sample);

  // --- listing, in the order of registration. Dotted names lead through children: "conv1.weight".
  // What lists, reads or lays out parameters throws ValueError while a layer has none yet because
  // it infers its input size (initialize()); to(device) and to(dtype) say where they will be made.
  /// A tensor that is registered twice (tied weights) is listed once.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;      ///< all buffers, of this module and those below it
  std::vector<Tensor> parameters() const;  ///< all parameters, as optimizers take them
  int64_t num_parameters() const;          ///< numbers in all parameters
  std::vector<std::pair<std::string, Module*>> named_children() const;  ///< those directly below
  /// Calls `visit` on this module and on all below it.
  void apply(const std::function<void(Module&)>& visit);

  // --- changing all of them. Parameters keep their identity, so optimizers and handles stay valid.
  Module& to(Device device);  ///< moves parameters, their gradients and buffers
  Module& to(DType dtype);    ///< casts those of floating dtype
  /// Lays out those of rank 4 (weights of convolutions) so: nhwc saves convolutions of nhwc
  /// activations a copy of them. Activations follow the input: `net(x.to(MemoryFormat::nhwc))`.
  Module& to(MemoryFormat format);
  /// Training mode (dropout, batch statistics) or eval mode, here and below. Throws CompileError in
  /// a step that is compiled.
  Module& train(bool on = true);
  Module& eval() { return train(false); }      ///< as train(false)
  bool training() const { return training_; }  ///< whether this module is in training mode
  Module& requires_grad(bool on);              ///< false freezes the parameters
  /// Forgets the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  // --- state
  /// Parameters and buffers by name, detached; they share memory with the module.
  StateDict state_dict() const;
  /// Copies values in (between devices and floating dtypes). All names and shapes are checked
  /// first: on error nothing has changed. Throws ValueError naming what is missing, unexpected or
  /// of another shape, ten of each at most, and how many they are.
  LoadResult load_state_dict(const StateDict& state, LoadOptions options = {});

  /// One line per module: names, kinds, options.
  std::string str() const;
  /// "Conv2d": the class's name.
  std::string kind() const;

 protected:
  /// What str() shows in the brackets: "3, 6, kernel=(5, 5)".
  virtual std::string options_str() const { return {}; }

  /// For a layer that infers an input size: its parameters are registered undefined, and made at
  /// the first call.
  void defer_parameters(const DeferredParameters& how);
  /// Null once they are made, and for layers that never deferred them.
  const DeferredParameters* deferred_parameters() const { return deferred_.get(); }
  /// Makes them by `make`, outside of a step that is being recorded: parameters outlive it. Where
  /// that throws they stay deferred.
  void make_deferred(const std::function<void(const DeferredParameters& how)>& make);

  /// The modules directly below, in order.
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const {
    return children_;
  }

 private:
  struct Entry {
    std::string name;
    Tensor value;
    bool trained;
  };

  struct Hook;
  using Hooks = std::vector<std::shared_ptr<Hook>>;

  Tensor forward_with_hooks(const Tensor& x);
  void add_child(std::string name, std::unique_ptr<Module> child);
  Tensor& add_tensor(std::string name, Tensor value, bool trained);
  void check_name(const std::string& name) const;
  void visit_tensors(const std::string& prefix,
                     const std::function<void(const std::string&, Entry&)>& visit);
  void visit_tensors(const std::string& prefix,
                     const std::function<void(const std::string&, const Entry&)>& visit) const;
  NamedTensors list(bool trained) const;
  void check_parameters_made(const std::string& prefix = {}) const;
  void replace_all(const std::function<Tensor(const Tensor&)>& change);

  std::deque<Entry> tensors_;  // a deque: references handed out stay valid
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
  std::unique_ptr<DeferredParameters> deferred_;
  bool training_ = true;
  std::shared_ptr<Hooks> hooks_;
};

/// Keeps a hook for as long as it lives.
class [[nodiscard]] Module::HookHandle {
 public:
  HookHandle() = default;
  ~HookHandle() { remove(); }
  HookHandle(HookHandle&& other) noexcept = default;  ///< takes the hook over
  /// Takes the hook over; the one held before goes.
  HookHandle& operator=(HookHandle&& other) noexcept;
  void remove();  ///< the hook goes now

 private:
  friend class Module;
  HookHandle(const std::shared_ptr<Hooks>& hooks, const std::shared_ptr<Hook>& hook)
      : hooks_(hooks), hook_(hook) {}
  std::weak_ptr<Hooks> hooks_;
  std::weak_ptr<Hook> hook_;
};

}  // namespace brim::nn
