// Moments taken by a thread, so that keys are answered while trainings that hang are waited for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "command/top/sampler.h"

namespace brim::top {

class BackgroundSampler {
 public:
  /// A moment each `interval` seconds; the first comes earlier.
  BackgroundSampler(Sampler::Sources sources, double interval);
  ~BackgroundSampler();
  BackgroundSampler(const BackgroundSampler&) = delete;
  BackgroundSampler& operator=(const BackgroundSampler&) = delete;

  /// Can be read while moments wait to be taken.
  int descriptor() const { return event_; }
  /// What has come since the last call. Throws what ended the thread.
  std::vector<Moment> take();
  /// From now on the threads of this process are read as well; 0: none.
  void watch(int64_t pid) { watched_.store(pid, std::memory_order_relaxed); }

 private:
  void loop(double interval);
  /// Waits; false when it is to end.
  bool pause(double seconds);

  Sampler sampler_;
  int event_;
  std::atomic<int64_t> watched_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Moment> moments_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace brim::top
