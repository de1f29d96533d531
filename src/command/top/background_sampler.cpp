#include "command/top/background_sampler.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/start_thread.h"

namespace brim::top {
namespace {

constexpr double kFirstSeconds = 0.2;
constexpr size_t kMaxWaiting = 16;  // where nobody takes them, as while the process is stopped

}  // namespace

BackgroundSampler::BackgroundSampler(Sampler::Sources sources, double interval)
    : sampler_(std::move(sources)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  BRIM_CHECK(event_ >= 0, Error, "[top] the system gives no more descriptors: {}; close some files",
             std::system_category().message(errno));
  thread_ = start_thread([&] { return std::thread([this, interval] { loop(interval); }); });
}

BackgroundSampler::~BackgroundSampler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  close(event_);
}

bool BackgroundSampler::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                            [&] { return stopping_; });
}

void BackgroundSampler::loop(double interval) {
  try {
    double wait = std::min(interval, kFirstSeconds);
    do {
      Moment moment = sampler_.take(watched_.load(std::memory_order_relaxed));
      const std::lock_guard lock(mutex_);
      if (moments_.size() < kMaxWaiting) moments_.push_back(std::move(moment));
      eventfd_write(event_, 1);
    } while (pause(std::exchange(wait, interval)));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    eventfd_write(event_, 1);
  }
}

std::vector<Moment> BackgroundSampler::take() {
  eventfd_t ignored = 0;
  eventfd_read(event_, &ignored);
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return std::exchange(moments_, {});
}

}  // namespace brim::top
