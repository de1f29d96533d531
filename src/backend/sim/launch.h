// Kernels on virtual accelerators: the CPU's kernels, queued on a stream. What a launch captures
// are CPU tensors over the same bytes; they do not keep the memory alive, as a GPU's launch does
// not.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <brim/core/stream.h>
#include <brim/core/tensor.h>

#include "backend/sim/work.h"
#include "backend/touches.h"
#include "core/context.h"

namespace brim::sim {

/// Queues work; the checker looks at it first. Charges what launching costs.
void enqueue(const Stream& stream, Work work);
/// Calls `queue_work`; what this thread queues on `stream` meanwhile is launched as one.
void enqueue_as_one(const Stream& stream, const std::function<void()>& queue_work);
/// Where the bytes of a device address really are.
void* real_address(const void* address, Device device);
/// A CPU tensor over the bytes of a device's tensor; undefined stays undefined.
Tensor shadow(const Tensor& t);
/// Adds the storage of `t`, if it is defined, to what work touches.
void touch(Work& work, const Tensor& t, bool writes);

/// What a launch keeps of an argument until it runs.
template <class A>
auto captured(const A& argument) {
  if constexpr (std::is_same_v<A, Tensor>) {
    return shadow(argument);
  } else if constexpr (backend::IsTensorSpan<A>::value) {
    std::vector<Tensor> shadows;
    for (const Tensor& t : argument) shadows.push_back(shadow(t));
    return shadows;
  } else {
    return argument;
  }
}

/// Queues the CPU kernel `function` on `stream`. `operations`: multiplications and additions, or a
/// negative number for one per element of the largest tensor.
template <class... Args>
void launch(const char* name, const Stream& stream, DType dtype, double operations,
            void (*function)(const Context&, Args...), std::type_identity_t<Args>... args) {
  Work work{.name = name, .dtype = dtype, .operations = operations};
  (backend::for_each_tensor<Args>(args,
                                  [&](const Tensor& t, bool writes) { touch(work, t, writes); }),
   ...);
  work.run = [function,
              kept = std::make_tuple(captured<std::remove_cvref_t<Args>>(args)...)]() mutable {
    std::apply(
        [&](auto&... values) {
          function(Context{Stream{Device::cpu(), 0}}, values...);
        },
        kept);
  };
  work.operations = std::abs(work.operations);
  enqueue(stream, std::move(work));
}

}  // namespace brim::sim
