#include "plan/side_stream.h"

#include <brim/core/stream.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
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
  void give_back(const Stream& stream) {
    const std::lock_guard lock(mutex_);
    free_.push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::vector<Stream> free_;
};

/// The streams of this thread's plans beside the main one: plans run one at a time.
Stream stream_of_thread(Device device, backend::PlanStream which) {
  struct Taken {
    Device device;
    backend::PlanStream which;
    Stream stream;
  };
  static thread_local struct AllTaken {
    std::vector<Taken> list;
    ~AllTaken() {
      for (const Taken& t : list) FreeStreams::all().give_back(t.stream);
    }
  } all;
  for (const Taken& t : all.list)
    if (t.device == device && t.which == which) return t.stream;
  all.list.push_back({device, which, FreeStreams::all().take(device)});
  return all.list.back().stream;
}

class DeviceStream final : public SideStream {
 public:
  DeviceStream(Device device, backend::PlanStream which) : device_(device), which_(which) {}

  void queue(Work work, const Stream& main) override {
    if (done_.empty()) {
      stream_ = stream_of_thread(device_, which_);
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
  const backend::PlanStream which_;
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

std::unique_ptr<SideStream> SideStream::create(Device device, backend::PlanStream which) {
  if (device.is_cpu()) return std::make_unique<ThreadStream>(device);
  return std::make_unique<DeviceStream>(device, which);
}

}  // namespace brim::plan
