#include "plan/side_stream.h"

#include <brim/core/stream.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/start_thread.h"
#include "diag/span.h"

namespace brim::plan {
namespace {

class DeviceStream final : public SideStream {
 public:
  explicit DeviceStream(Device device) : stream_(Stream::create(device)) {}

  void queue(backend::Launch& launch, const Stream& main) override {
    Event before;
    before.record(main);
    before.wait(stream_);
    launch.run({stream_, &scratch_});
    done_.emplace_back().record(stream_);
  }
  void wait_for(size_t count, const Stream& main) override { done_[count - 1].wait(main); }
  void finish(const Stream& main) override {
    if (!done_.empty()) done_.back().wait(main);
    done_.clear();
  }

 private:
  const Stream stream_;
  std::vector<Event> done_;  // behind each launch
};

class ThreadStream final : public SideStream {
 public:
  explicit ThreadStream(Device device)
      : device_(device),
        thread_(start_thread([this] { return std::thread([this] { loop(); }); })) {}
  ~ThreadStream() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void queue(backend::Launch& launch, const Stream&) override {
    {
      const std::lock_guard lock(mutex_);
      launches_.push_back(&launch);
    }
    changed_.notify_all();
  }
  void wait_for(size_t count, const Stream&) override {
    std::unique_lock lock(mutex_);
    wait_for(count, lock);
  }
  void finish(const Stream&) override {
    std::unique_lock lock(mutex_);
    const size_t all = launches_.size();
    try {
      wait_for(all, lock);
    } catch (...) {
      start_anew();
      throw;
    }
    start_anew();
  }

 private:
  void start_anew() {
    launches_.clear();
    done_ = 0;
    error_ = nullptr;
  }
  /// What is not run because of an error counts as done.
  void wait_for(size_t count, std::unique_lock<std::mutex>& lock) {
    if (done_ < count) {
      const diag::Span span("wait for other ranks", diag::Cause::communication);
      changed_.wait(lock, [&] { return done_ >= count; });
    }
    if (error_) std::rethrow_exception(error_);
  }
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || done_ < launches_.size(); });
      if (done_ == launches_.size()) return;
      backend::Launch& launch = *launches_[done_];
      if (!error_) {
        lock.unlock();
        std::exception_ptr error;
        try {
          launch.run({Stream{device_, 0}, &scratch_});
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        error_ = error;
      }
      ++done_;
      changed_.notify_all();
    }
  }

  const Device device_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<backend::Launch*> launches_;  // since the last finish()
  size_t done_ = 0;
  std::exception_ptr error_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<SideStream> SideStream::create(Device device) {
  if (device.is_cpu()) return std::make_unique<ThreadStream>(device);
  return std::make_unique<DeviceStream>(device);
}

}  // namespace brim::plan
