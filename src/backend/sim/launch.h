// Kernels on virtual accelerators: the CPU's kernels, queued on a stream. What a launch captures
// are CPU tensors over the same bytes; they do not keep the memory alive, as a GPU's launch does
// not.
#pragma once

#include <functional>

#include <brim/core/stream.h>
#include <brim/core/tensor.h>

#include "backend/sim/work.h"

namespace brim::sim {

/// Queues work; the checker looks at it first. Charges what launching costs.
void enqueue(const Stream& stream, Work work);
/// Calls `queue_work`; what this thread queues on the stream's device meanwhile is launched as one.
void enqueue_as_one(const Stream& stream, const std::function<void()>& queue_work);
/// Hands on what enqueue_as_one() has collected so far, before an event that is to come behind it.
void launch_collected();
/// Where the bytes of a device address really are.
void* real_address(const void* address, Device device);
/// A CPU tensor over the bytes of a device's tensor; undefined stays undefined.
Tensor shadow(const Tensor& t);
}  // namespace brim::sim
