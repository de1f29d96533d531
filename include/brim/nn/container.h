// Modules made of modules.
#pragma once

#include <concepts>
#include <functional>
#include <memory>

#include <brim/nn/module.h>

namespace brim::nn {

/// Runs its children one after the other. Children are called "0", "1", ... as in PyTorch, or by
/// the name given to add().
///
///   nn::Sequential net;
///   net.push<nn::Linear>({.in = 784, .out = 64}).push<nn::ReLU>().push<nn::Linear>({64, 10});
class Sequential : public Module {
 public:
  ///@{
  /// Appends a module, called by its number, and returns this.
  template <HasOptions M>
  Sequential& push(typename M::Options options = {}) {
    add<M>(next_name(), std::move(options));
    return *this;
  }
  template <class M, class... Args>
  requires(!HasOptions<M>) Sequential& push(Args&&... args) {
    add<M>(next_name(), std::forward<Args>(args)...);
    return *this;
  }
  template <class Owner>  // a std::unique_ptr of one
  requires std::same_as<Owner, std::unique_ptr<typename Owner::element_type>> Sequential& push(
      Owner module) {
    add(next_name(), std::move(module));
    return *this;
  }
  ///@}

  Tensor forward(const Tensor& x) override;
  size_t size() const { return children().size(); }  ///< how many modules there are
  Module& operator[](size_t index) const;            ///< throws IndexError

 private:
  std::string next_name() const { return std::to_string(size()); }
};

/// Modules of one kind, called "0", "1", ...; the owner decides what to do with them:
///
///   nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");
///   ... for (Block& block : blocks) x = block(x);
template <class M>
class ModuleList : public Module {
 public:
  ///@{
  /// Appends a module and returns it; it lives as long as this.
  M& push(std::unique_ptr<M> module) {
    return items_.emplace_back(add(std::to_string(size()), std::move(module)));
  }
  template <HasOptions Made = M>
  M& push(typename Made::Options options) {
    return push(std::make_unique<M>(std::move(options)));
  }
  template <class... Args>
  requires(!HasOptions<M> && std::is_constructible_v<M, Args...>) M& push(Args&&... args) {
    return push(std::make_unique<M>(std::forward<Args>(args)...));
  }
  ///@}
  size_t size() const { return items_.size(); }                   ///< how many modules there are
  M& operator[](size_t index) const { return items_.at(index); }  ///< throws std::out_of_range
  ///@{
  /// The modules, in order.
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  ///@}

 private:
  std::vector<std::reference_wrapper<M>> items_;
};

}  // namespace brim::nn
