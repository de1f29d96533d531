// The arguments of a kernel, without their types: what lies between an op's typed call and the code
// that runs, queues or records it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <brim/core/same_bits.h>
#include <brim/core/tensor.h>

namespace brim {

struct Context;  // where a kernel runs

namespace extend {

/// A function void(const Context&, Args...), as another type.
using AnyFunction = void (*)();

/// Whether T is a span of tensors, which kernels take as one argument.
template <class A>
struct IsTensorSpan : std::false_type {};
/// @cond
template <class T>
requires std::is_same_v<std::remove_const_t<T>, Tensor>
struct IsTensorSpan<std::span<T>> : std::true_type {
};
/// @endcond

/// Whether a kernel's parameter of type A is a tensor, or a span of them, and written.
enum class Argument : uint8_t {
  option,  ///< a value
  read,    ///< a tensor that is read
  written  ///< a tensor that is written
};
/// The kind of a parameter of type A: `Tensor&` is written, `const Tensor&` read.
template <class A>
constexpr Argument argument_of() {
  using Plain = std::remove_cvref_t<A>;
  if constexpr (std::is_same_v<Plain, Tensor>)
    return std::is_const_v<std::remove_reference_t<A>> ? Argument::read : Argument::written;
  else if constexpr (IsTensorSpan<Plain>::value)
    return std::is_const_v<typename Plain::element_type> ? Argument::read : Argument::written;
  else
    return Argument::option;
}

/// A tensor among the arguments.
struct TensorArgument {
  const Tensor& tensor;  ///< undefined for an argument left out
  bool writes;           ///< it may be read as well
  uint8_t argument;      ///< which of the parameters that are tensors, or spans of them
  bool listed;           ///< it is one of a span
};

class KeptArguments;

/// Arguments of one call of a kernel, whatever its signature.
class Arguments {
 public:
  virtual ~Arguments() = default;
  /// Calls `kernel`, which has the signature of these arguments.
  virtual void run(AnyFunction kernel, const Context& context) = 0;
  /// Multiplications and additions; negative where they are not declared.
  virtual double operations() = 0;
  /// Calls `use` for each tensor, in order; those of spans one by one.
  virtual void for_each_tensor(const std::function<void(const TensorArgument&)>& use) const = 0;
  /// A copy for later, with `other(tensor)` in the place of each tensor that is defined.
  virtual std::unique_ptr<KeptArguments> kept(
      const std::function<Tensor(const Tensor&)>& other) const = 0;
};

/// Arguments that outlive the call.
class KeptArguments : public Arguments {
 public:
  /// Whether all but the tensors are equal.
  virtual bool same_options(const KeptArguments& other) const = 0;
  /// The first argument of that type that is no tensor, or null.
  virtual void* option(const std::type_info& type) = 0;
  /// Takes elements, in rising order, of `count` out of all spans.
  virtual void drop_elements(std::span<const size_t> gone, size_t count) = 0;
};

/// What is kept of an argument of type A: a value.
template <class A>
struct KeptArgument {
  using Type = A;  ///< A itself.
};
/// @cond
template <class T>
struct KeptArgument<std::span<T>> {
  using Type = std::vector<std::remove_const_t<T>>;
};
/// @endcond
/// What is kept of an argument of type A.
template <class A>
using Kept = typename KeptArgument<std::remove_cvref_t<A>>::Type;

/// @cond
template <class... Args>
class __attribute__((visibility("hidden"))) KeptArgumentsOf;

/// There is one for each signature, so they are small: hidden, because nobody looks their names up,
/// and cold but for run(), so that compilers care for size.
/// Base: Arguments or KeptArguments; Values: of each of Args, a reference to it or what is kept.
template <class Base, class Values, class... Args>
class __attribute__((visibility("hidden"))) TypedArguments : public Base {
 public:
  using Operations = double (*)(const std::remove_reference_t<Args>&...);

  TypedArguments(Operations operations, Values values)
      : operations_(operations), values_(std::move(values)) {}

  void run(AnyFunction kernel, const Context& context) override {
    const auto typed = reinterpret_cast<void (*)(const Context&, Args...)>(kernel);
    std::apply([&](auto&... values) { typed(context, values...); }, values_);
  }
  double operations() override {
    if (!operations_) return -1;
    return std::apply([&](auto&... values) { return operations_(values...); }, values_);
  }
  [[gnu::cold]] void for_each_tensor(
      const std::function<void(const TensorArgument&)>& use) const override {
    uint8_t argument = 0;
    std::apply([&](const auto&... values) { (visit<Args>(values, argument, use), ...); }, values_);
  }
  [[gnu::cold]] std::unique_ptr<KeptArguments> kept(
      const std::function<Tensor(const Tensor&)>& other) const override {
    return std::apply(
        [&](const auto&... values) -> std::unique_ptr<KeptArguments> {
          return std::make_unique<KeptArgumentsOf<Args...>>(
              operations_, std::tuple<extend::Kept<Args>...>(keep<Args>(values, other)...));
        },
        values_);
  }

 private:
  template <class A, class V>
  static void visit(const V& value, uint8_t& argument,
                    const std::function<void(const TensorArgument&)>& use) {
    constexpr Argument kArgument = argument_of<A>();
    constexpr bool kWrites = kArgument == Argument::written;
    if constexpr (std::is_same_v<V, Tensor>) {
      use({value, kWrites, argument++, false});
    } else if constexpr (kArgument != Argument::option) {
      for (const Tensor& t : value) use({t, kWrites, argument, true});
      ++argument;
    }
  }
  template <class A, class V>
  static extend::Kept<A> keep(const V& value, const std::function<Tensor(const Tensor&)>& other) {
    const auto one = [&](const Tensor& t) { return t.defined() ? other(t) : Tensor(); };
    if constexpr (std::is_same_v<V, Tensor>) {
      return one(value);
    } else if constexpr (argument_of<A>() != Argument::option) {
      std::vector<Tensor> tensors;
      for (const Tensor& t : value) tensors.push_back(one(t));
      return tensors;
    } else {
      return value;
    }
  }

 protected:
  Operations operations_;
  Values values_;
};

/// The arguments of a call, while it lasts.
template <class... Args>
using BoundArguments = TypedArguments<Arguments, std::tuple<Args...>, Args...>;

template <class... Args>
class __attribute__((visibility("hidden"))) KeptArgumentsOf final
    : public TypedArguments<KeptArguments, std::tuple<Kept<Args>...>, Args...> {
 public:
  using TypedArguments<KeptArguments, std::tuple<Kept<Args>...>, Args...>::TypedArguments;

  [[gnu::cold]] bool same_options(const KeptArguments& other) const override {
    const auto* const o = dynamic_cast<const KeptArgumentsOf*>(&other);
    return o && same(*o, std::index_sequence_for<Args...>());
  }
  [[gnu::cold]] void* option(const std::type_info& type) override {
    void* found = nullptr;
    std::apply([&](auto&... values) { (match(values, type, found), ...); }, this->values_);
    return found;
  }
  [[gnu::cold]] void drop_elements(std::span<const size_t> gone, size_t count) override {
    std::apply([&](auto&... values) { (drop(values, gone, count), ...); }, this->values_);
  }

 private:
  template <class K>
  static constexpr bool kTensors =
      std::is_same_v<K, Tensor> || std::is_same_v<K, std::vector<Tensor>>;

  template <size_t... I>
  bool same(const KeptArgumentsOf& other, std::index_sequence<I...>) const {
    return (same_one(std::get<I>(this->values_), std::get<I>(other.values_)) && ...);
  }
  template <class K>
  static bool same_one(const K& a, const K& b) {
    if constexpr (std::is_same_v<K, Tensor>) {
      return true;
    } else if constexpr (std::is_same_v<K, std::vector<Tensor>>) {
      return a.size() == b.size();
    } else if constexpr (std::is_floating_point_v<K>) {
      return same_bits(a, b);
    } else {
      static_assert(std::equality_comparable<K>,
                    "an option of a kernel needs operator==: plans tell launches apart by it");
      return a == b;
    }
  }
  template <class K>
  static void match(K& kept, const std::type_info& type, void*& found) {
    if constexpr (!kTensors<K>)
      if (!found && typeid(K) == type) found = &kept;
  }
  template <class K>
  static void drop(K& kept, std::span<const size_t> gone, size_t count) {
    if constexpr (std::is_same_v<K, std::vector<Tensor>>) {
      const size_t each = kept.size() / count;
      for (size_t i = gone.size(); i-- > 0;) {
        const auto first = kept.begin() + static_cast<std::ptrdiff_t>(gone[i] * each);
        kept.erase(first, first + static_cast<std::ptrdiff_t>(each));
      }
    }
  }
};
/// @endcond

}  // namespace extend
}  // namespace brim
