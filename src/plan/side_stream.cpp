#include "plan/side_stream.h"

#include <brim/core/stream.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime.h"
#include "core/start_thread.h"
#include "diag/span.h"

namespace brim::plan {
namespace {

/// Streams that no plan uses now, by device. Those of a plan's thread are given back when it ends,
/// so there are as many as threads have used at a time. Never destroyed.
class FreeStreams {
 public:
  static FreeStreams& all() {
    static auto* all = new FreeStreams;
    return *all;
  }
  Stream take(Device device) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(free_, device, &Stream::device);
      if (found != free_.end()) {
        const Stream stream = *found;
        free_.erase(found);
        return stream;
      }
    }
    return runtime(device.kind).create_private_stream(device.index);
  }
  void give_back(std::span<const Stream> streams) {
    const std::lock_guard lock(mutex_);
    free_.insert(free_.end(), streams.begin(), streams.end());
  }

 private:
  std::mutex mutex_;
  std::vector<Stream> free_;
};

/// The side stream of this thread's plans on a device: they run one at a time.
Stream stream_of_thread(Device device) {
  static thread_local struct Taken {
    std::vector<Stream> streams;
    ~Taken() { FreeStreams::all().give_back(streams); }
  } taken;
  const auto found = std::ranges::find(taken.streams, device, &Stream::device);
  if (found != taken.streams.end()) return *found;
  return taken.streams.emplace_back(FreeStreams::all().take(device));
}

class DeviceStream final : public SideStream {
 public:
  explicit DeviceStream(Device device) : device_(device) {}

  void queue(Work work, const Stream& main) override {
    if (done_.empty()) {
      stream_ = stream_of_thread(device_);
      // What the last step met has gone on to the main stream, where somebody has asked for it.
      runtime(device_.kind).forget_errors(stream_);
    }
    Event before;
    before.record(main);
    before.wait(stream_);
    Event& done = done_.emplace_back();
    try {
      work({stream_, &scratch_});
    } catch (...) {
      done.record(stream_);  // parts of it may be queued
      throw;
    }
    done.record(stream_);
  }
  void wait_for(size_t count, const Stream& main) override { done_[count - 1].wait(main); }
  void finish(const Stream& main) override {
    if (done_.empty()) return;
    const Event last = done_.back();
    done_.clear();
    last.wait(main);
  }

 private:
  const Device device_;
  Stream stream_;
  std::vector<Event> done_;  // behind each work
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

  void queue(Work work, const Stream&) override {
    {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void wait_for(size_t count, const Stream&) override {
    std::unique_lock lock(mutex_);
    wait_for(count, lock);
  }
  void finish(const Stream&) override {
    std::unique_lock lock(mutex_);
    const size_t all = works_.size();
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
    works_.clear();
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
      changed_.wait(lock, [&] { return ending_ || done_ < works_.size(); });
      if (done_ == works_.size()) return;
      const Work work = std::move(works_[done_]);
      if (!error_) {
        lock.unlock();
        std::exception_ptr error;
        try {
          work({Stream{device_, 0}, &scratch_});
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
  std::vector<Work> works_;  // since the last finish()
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
