#include <brim/dist/collective_queue.h>

#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/recording.h"
#include "plan/side_stream.h"

namespace brim::dist {
namespace {

constexpr size_t kMaxBegun = 1000;

}  // namespace

struct Pending::Queue {
  GroupPtr group;
  Device device;
  std::unique_ptr<plan::SideStream> side;
  uint64_t finished = 0;  // collectives that a wait was for, and all before
  // Those behind: what they capture lives until a wait, since its memory is given back to the main
  // stream.
  std::vector<std::shared_ptr<const CollectiveQueue::Collective>> begun;

  uint64_t started() const { return finished + begun.size(); }
  void wait_for(uint64_t number) {
    if (number <= finished) return;
    const Stream main = Stream::current(device);
    if (number < started()) return side->wait_for(static_cast<size_t>(number - finished), main);
    finished = number;
    const auto ended = std::exchange(begun, {});
    side->finish(main);
  }
};

Pending::Pending(std::shared_ptr<Queue> queue, uint64_t number)
    : queue_(std::move(queue)), number_(number) {}

void Pending::wait() {
  if (queue_) queue_->wait_for(number_);
}

CollectiveQueue::CollectiveQueue(const GroupPtr& group, Device device)
    : queue_(std::make_shared<Pending::Queue>()) {
  queue_->group = group->duplicate();
  queue_->device = device;
  queue_->side = plan::SideStream::create(device);
}

CollectiveQueue::~CollectiveQueue() {
  try {
    queue_->wait_for(queue_->started());
  } catch (...) {  // nobody asked
  }
}

Pending CollectiveQueue::start(Collective collective) {
  refuse_in_recording("a CollectiveQueue",
                      "call collectives themselves: the step's plan overlaps them");
  Pending::Queue& q = *queue_;
  if (q.begun.size() >= kMaxBegun) q.wait_for(q.started());
  const auto shared = std::make_shared<const Collective>(std::move(collective));
  const auto work = [shared, group = q.group](const Context& context) {
    const NoGrad off;
    const StreamGuard scope(context.stream);
    (*shared)(*group);
  };
  q.begun.push_back(shared);
  q.side->queue(work, Stream::current(q.device));
  return {queue_, q.started()};
}

}  // namespace brim::dist
