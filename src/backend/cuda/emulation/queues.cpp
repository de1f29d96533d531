// See queues.h.
#include "backend/cuda/emulation/queues.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/environment.h"

namespace brim::cuda::emulation {

struct Queue {
  int device = 0;
  std::deque<std::function<void()>> work;
  std::thread::id doing;  // who does its work; guarded by Queues::doing
};

namespace {

/// Held by who does work, which may be to wait for another queue's, and by one thread at a time but
/// while it waits for what another one does.
class Doing {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::thread::id self = std::this_thread::get_id();
    if (owner_ != self) {
      free_.wait(lock, [&] { return owner_ == std::thread::id(); });
      owner_ = self;
    }
    ++depth_;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    if (--depth_ > 0) return;
    owner_ = {};
    free_.notify_one();
  }
  /// Lets others do theirs for a moment.
  void pause() {
    int depth = 0;
    {
      const std::lock_guard lock(mutex_);
      if (owner_ == std::this_thread::get_id()) {
        depth = std::exchange(depth_, 0);
        owner_ = {};
        free_.notify_one();
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (depth == 0) return;
    lock();
    depth_ = depth;
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  std::thread::id owner_;
  int depth_ = 0;
};

/// All queues, by stream; the default stream is each device's own.
struct Queues {
  std::mutex mutex;  // of the queues, never held while work is done
  std::map<std::pair<cudaStream_t, int>, Queue> of;
  Doing doing;

  Queue& find(cudaStream_t stream, int device) {
    Queue& queue = of[{stream, stream ? 0 : device}];
    queue.device = device;
    return queue;
  }
};
Queues& queues() {
  static auto* all = new Queues;  // never destroyed, as streams
  return *all;
}

bool is_at_once() {
  static const bool at_once = environment_switch("BRIM_EMULATED_AT_ONCE");
  return at_once;
}

/// Does the work of a queue, in order; before a mark, if there is one. What another thread is at,
/// which lets this one in as it waits, is waited for, or left to it.
void run(Queue& queue, const Mark* mark, bool waits = true) {
  const std::lock_guard doing(queues().doing);
  const std::thread::id self = std::this_thread::get_id();
  while (queue.doing != std::thread::id() && queue.doing != self) {
    if (!waits || (mark && mark->is_reached)) return;
    queues().doing.pause();
  }
  const std::thread::id before = std::exchange(queue.doing, self);
  const struct Done {
    Queue& of;
    std::thread::id before;
    ~Done() { of.doing = before; }
  } done{queue, before};
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
namespace {

void finish_those(const std::function<bool(const Queue&)>& wanted, bool waits) {
  // What is done may ask for more; streams that are made meanwhile have nothing to do yet.
  std::vector<Queue*> all;
  {
    const std::lock_guard lock(queues().mutex);
    for (auto& [stream, queue] : queues().of)
      if (wanted(queue)) all.push_back(&queue);
  }
  for (Queue* queue : all) run(*queue, nullptr, waits);
}

}  // namespace

void finish_device(int device) {
  finish_those([&](const Queue& queue) { return queue.device == device; }, true);
}
void go_on() {
  finish_those([](const Queue&) { return true; }, false);
}
void pause() { queues().doing.pause(); }
void discard_all() {
  const std::lock_guard lock(queues().mutex);
  for (auto& [stream, queue] : queues().of) queue.work.clear();
}

}  // namespace brim::cuda::emulation
