// See queues.h.
#include "backend/cuda/emulation/queues.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "core/environment.h"

namespace brim::cuda::emulation {

struct Queue {
  std::deque<std::function<void()>> work;
};

namespace {

/// All queues, by stream; the default stream is each device's own.
struct Queues {
  std::mutex mutex;  // of the queues, never held while work is done
  std::map<std::pair<cudaStream_t, int>, Queue> of;
  std::recursive_mutex doing;  // held by who does work, which may be to wait for another queue's

  Queue& find(cudaStream_t stream, int device) { return of[{stream, stream ? 0 : device}]; }
};
Queues& queues() {
  static auto* all = new Queues;  // never destroyed, as streams
  return *all;
}

bool is_at_once() {
  static const bool at_once = environment_switch("BRIM_EMULATED_AT_ONCE");
  return at_once;
}

/// Does the work of a queue, in order; before a mark, if there is one.
void run(Queue& queue, const Mark* mark) {
  const std::lock_guard doing(queues().doing);
  while (!mark || !mark->is_reached) {
    std::function<void()> work;
    {
      const std::lock_guard lock(queues().mutex);
      if (queue.work.empty()) return;
      work = std::move(queue.work.front());
      queue.work.pop_front();
    }
    work();
  }
}

void put(Queue& queue, std::function<void()> work) {
  {
    const std::lock_guard lock(queues().mutex);
    queue.work.push_back(std::move(work));
  }
  if (is_at_once()) run(queue, nullptr);
}

Queue& queue_of(cudaStream_t stream, int device) {
  const std::lock_guard lock(queues().mutex);
  return queues().find(stream, device);
}

}  // namespace

void enqueue(cudaStream_t stream, int device, std::function<void()> work) {
  put(queue_of(stream, device), std::move(work));
}
std::shared_ptr<Mark> enqueue_mark(cudaStream_t stream, int device) {
  auto mark = std::make_shared<Mark>();
  mark->queue = &queue_of(stream, device);
  put(*mark->queue, [mark] {
    mark->at = std::chrono::steady_clock::now();
    mark->is_reached = true;
  });
  return mark;
}
void enqueue_wait(cudaStream_t stream, int device, std::shared_ptr<Mark> mark) {
  put(queue_of(stream, device), [mark = std::move(mark)] { reach(*mark); });
}

void reach(Mark& mark) { run(*mark.queue, &mark); }
void finish(cudaStream_t stream, int device) { run(queue_of(stream, device), nullptr); }
void finish_all() {
  // What is done may ask for more; streams that are made meanwhile have nothing to do yet.
  std::map<std::pair<cudaStream_t, int>, Queue*> all;
  {
    const std::lock_guard lock(queues().mutex);
    for (auto& [stream, queue] : queues().of) all[stream] = &queue;
  }
  for (const auto& [stream, queue] : all) run(*queue, nullptr);
}
void discard_all() {
  const std::lock_guard lock(queues().mutex);
  for (auto& [stream, queue] : queues().of) queue.work.clear();
}

}  // namespace brim::cuda::emulation
