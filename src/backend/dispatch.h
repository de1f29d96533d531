// Runs a kernel that was found for its device, or hands it to the device's policy, and measures it.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <brim/core/stream.h>

#include "backend/launch_policy.h"
#include "backend/touches.h"
#include "core/context.h"
#include "diag/span.h"

namespace brim::backend {

/// What is kept of an argument of type A.
template <class A>
struct KeptArgument {
  using Type = A;
};
template <class T>
struct KeptArgument<std::span<T>> {
  using Type = std::vector<std::remove_const_t<T>>;
};

/// An argument to keep, with `keep(tensor)` in the place of each tensor that is defined.
template <class A, class Keep>
typename KeptArgument<A>::Type kept_argument(const A& argument, const Keep& keep) {
  if constexpr (std::is_same_v<A, Tensor>) {
    return argument.defined() ? keep(argument) : Tensor();
  } else if constexpr (IsTensorSpan<A>::value) {
    std::vector<Tensor> tensors;
    for (const Tensor& t : argument) tensors.push_back(t.defined() ? keep(t) : Tensor());
    return tensors;
  } else {
    return argument;
  }
}

template <class... Args>
class TypedCall final : public Call {
 public:
  using Function = void (*)(const Context&, Args...);
  using Operations = double (*)(const std::remove_reference_t<Args>&...);

  TypedCall(Function function, Operations operations, std::type_identity_t<Args>... args)
      : function_(function), operations_(operations), args_(args...) {}

  void run(const Context& context) override {
    std::apply([&](auto&&... args) { function_(context, args...); }, args_);
  }
  double operations() const override {
    if (!operations_) return -1;
    return std::apply([&](const auto&... args) { return operations_(args...); }, args_);
  }
  void for_each_tensor(const std::function<void(const Tensor&, bool)>& use) const override {
    std::apply([&](const auto&... args) { (backend::for_each_tensor<Args>(args, use), ...); },
               args_);
  }
  std::function<void(const Context&)> kept(Tensor (*other)(const Tensor&)) const override {
    return std::apply(
        [&](const auto&... args) -> std::function<void(const Context&)> {
          return [function = function_,
                  values = std::make_tuple(kept_argument<std::remove_cvref_t<Args>>(
                      args, other)...)](const Context& context) mutable {
            std::apply([&](auto&... each) { function(context, each...); }, values);
          };
        },
        args_);
  }

 private:
  Function function_;
  Operations operations_;
  std::tuple<Args...> args_;
};

/// `operations` may be null (see Kernel).
template <class... Args>
void dispatch(const Context& context, const char* name, DType dtype,
              void (*function)(const Context&, Args...),
              double (*operations)(const std::remove_reference_t<Args>&...),
              std::type_identity_t<Args>... args) {
  const LaunchPolicy& policy = launch_policy(context.stream.device.kind);
  if (policy.launch) [[unlikely]] {
    TypedCall<Args...> call(function, operations, args...);
    policy.launch(context, name, dtype, call);
  } else {
    const diag::Span span(name, diag::Cause::compute);
    function(context, args...);
  }
}

}  // namespace brim::backend
