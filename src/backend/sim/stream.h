// A stream of a virtual accelerator: a thread that does what is queued, in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <brim/core/device.h>

#include "backend/sim/pacer.h"
#include "backend/sim/work.h"
#include "backend/stream_checker.h"
#include "diag/device_meter.h"

namespace brim::sim {

/// A point in a stream's order.
struct StreamEvent {
  std::atomic<bool> done{false};
  Pacer::Clock::time_point at{};  ///< when the device was there
  Device device;
  diag::Cause cause = diag::Cause::other;  ///< what its stream did last before it
  std::exception_ptr error;                ///< what its stream met and nobody has asked for yet
  backend::StreamChecker::Clock clock;     ///< for the stream checker
};

class SimStream {
 public:
  /// `number` is unique among all streams, `id` on its device.
  SimStream(Device device, int id, int number, Pacer& pacer);
  /// Leaves out what has not begun, and ends the thread.
  ~SimStream();
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  int number() const { return number_; }
  /// Leaves out what has not begun, without waiting for what has.
  void stop();

  /// Queues work; waits while very much is queued already.
  void push(Work work);
  /// The same for several pieces in a row.
  void push(std::vector<Work> works);
  std::shared_ptr<StreamEvent> record();
  void wait(std::shared_ptr<StreamEvent> event);
  /// The same, but what its stream met stays there.
  void wait_until_done(std::shared_ptr<StreamEvent> event);
  /// The same when the stream comes to it, without a look at it.
  void forget_error();
  /// The first error of the work so far, which is then forgotten. After an error the stream does
  /// nothing but wait for events until somebody asks, and streams that wait for it fail, too.
  std::exception_ptr take_error();

 private:
  struct Task {
    Work work;
    diag::Reason reason;
    Pacer::Clock::time_point queued = Pacer::Clock::now();
    std::shared_ptr<StreamEvent> record, wait, done;  // at most one of them, and then no work
    bool forget = false;                              // likewise
  };
  void push(Task task);
  void wait_while_full(std::unique_lock<std::mutex>& lock);
  void loop();
  void run(Task& task);
  bool has_more_work();
  void run_wait(const StreamEvent& event);
  void fail(const std::exception_ptr& error);

  const Device device_;
  const int id_, number_;
  Pacer& pacer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::exception_ptr error_;
  bool failed_ = false, stopping_ = false;
  // Only for the thread itself:
  diag::Cause last_ = diag::Cause::other;
  diag::Cause waited_ = diag::Cause::other;
  Pacer::Clock::time_point done_at_{};  // when the device was done with all so far
  std::thread thread_;
};

}  // namespace brim::sim
