// Collectives that go on while their caller computes.
//
//   dist::CollectiveQueue queue(world, device);  // once; all ranks
//   dist::Pending sum = queue.start([&](dist::ProcessGroup& g) { dist::all_reduce(g, a); });
//   const Tensor y = matmul(b, c);  // meanwhile
//   sum.wait();                     // from here on `a` is the sum
//
// Gradients of DataParallel and collectives of compiled steps are overlapped without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <brim/dist/process_group.h>

namespace brim::dist {

/// A collective that was started.
class Pending {
 public:
  Pending() = default;  ///< of none: wait() returns at once

  /// What the current stream of the queue's device is given from here on comes behind the
  /// collective and those started before; on the CPU the host waits. Throws what the collective
  /// threw. More than once is as once.
  void wait();

 private:
  friend class CollectiveQueue;
  struct Queue;
  Pending(std::shared_ptr<Queue> queue, uint64_t number);
  std::shared_ptr<Queue> queue_;
  uint64_t number_ = 0;
};

/// Begins collectives one after the other, beside the current stream of a device: on a stream of
/// their own, or on the CPU in a thread of their own. For one thread. All ranks start the same ones
/// in the same order.
class CollectiveQueue {
 public:
  /// All ranks call it: the group is duplicated, so its own calls do not mix with these.
  CollectiveQueue(const GroupPtr& group, Device device);
  /// Waits for what was started; errors that nobody asked for are lost.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// Calls that go over the group they are given, on tensors of the queue's device.
  using Collective = std::function<void(ProcessGroup&)>;
  /// Begins it behind what the current stream was given so far, and returns at once. Until wait()
  /// nobody may write its tensors, or read those that it writes; they live until then by what it
  /// captures by value. Gradients are not recorded in it. With 1,000 begun and none waited for it
  /// waits first. Throws what calls throw on the host (mismatches of devices and shapes on devices
  /// with streams), CompileError in a step that is recorded.
  Pending start(Collective collective);

 private:
  std::shared_ptr<Pending::Queue> queue_;
};

}  // namespace brim::dist
