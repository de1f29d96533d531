// A job is one word: parts that nobody has taken yet, and parts at work. Threads spin for some
// microseconds before they sleep: steps follow each other closely.
#include "rt/threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "core/cpu_quota.h"

namespace brim::rt {

constexpr int kSpins = 4000;

class OwnThreads {
 public:
  explicit OwnThreads(const Memory& memory) : memory_(memory) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&work_, nullptr);
  }
  ~OwnThreads() {
    if (process_ == getpid()) end();
    memory_.give_back(threads_, handle_bytes());
  }
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  int start(int count) {
    wanted_ = count - 1;
    threads_ = static_cast<pthread_t*>(memory_.take(handle_bytes()));
    return threads_ ? start_missing() : BRIM_RT_NO_MEMORY;
  }

  /// Starts all threads anew in a child of fork(), which has their memory but not them.
  int follow_fork() {
    if (process_ == getpid() && started_ == wanted_) return BRIM_RT_OK;
    if (process_ != getpid()) {
      pthread_mutex_init(&mutex_, nullptr);
      pthread_cond_init(&work_, nullptr);
      sleepers_ = looking_ = 0;
      job_ = 0;
      started_ = 0;
      process_ = getpid();
    }
    return start_missing();
  }

  static void run(void* self, int64_t parts, void (*body)(void*, int64_t), void* context) {
    static_cast<OwnThreads*>(self)->run(parts, body, context);
  }

 private:
  int start_missing() {
    const auto loop = [](void* self) -> void* {
      static_cast<OwnThreads*>(self)->work_until_stopped();
      return nullptr;
    };
    for (; started_ < wanted_; ++started_)
      if (pthread_create(&threads_[started_], nullptr, loop, this) != 0) return BRIM_RT_NO_THREAD;
    return BRIM_RT_OK;
  }

  void end() {
    pthread_mutex_lock(&mutex_);
    stops_ = true;
    pthread_cond_broadcast(&work_);
    pthread_mutex_unlock(&mutex_);
    for (int i = 0; i < started_; ++i) pthread_join(threads_[i], nullptr);
    pthread_cond_destroy(&work_);
    pthread_mutex_destroy(&mutex_);
  }

  size_t handle_bytes() const {
    return static_cast<size_t>(wanted_ > 0 ? wanted_ : 1) * sizeof(pthread_t);
  }

  void run(int64_t parts, void (*body)(void*, int64_t), void* context) {
    // Threads that still look for parts of the last job find that there are none.
    wait_until([this] { return looking_.load(std::memory_order_seq_cst) == 0; });
    body_ = body;
    context_ = context;
    parts_ = parts;
    next_.store(0, std::memory_order_relaxed);
    left_.store(parts, std::memory_order_relaxed);
    job_.fetch_add(1, std::memory_order_seq_cst);  // odd: there is one
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      pthread_mutex_lock(&mutex_);
      pthread_cond_broadcast(&work_);
      pthread_mutex_unlock(&mutex_);
    }
    take_parts();
    wait_until([this] { return left_.load(std::memory_order_acquire) == 0; });
    job_.fetch_add(1, std::memory_order_seq_cst);
  }

  void take_parts() {
    for (;;) {
      const int64_t part = next_.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts_) return;
      body_(context_, part);
      left_.fetch_sub(1, std::memory_order_release);
    }
  }

  bool has_job() const { return job_.load(std::memory_order_seq_cst) % 2 == 1; }

  /// Others have yet to end what they do, which is short unless they lost their core.
  template <class Condition>
  static void wait_until(const Condition& holds) {
    for (int spins = 0; !holds(); ++spins)
      spins < kSpins ? pause() : static_cast<void>(sched_yield());
  }

  void work_until_stopped() {
    for (;;) {
      int spins = 0;
      while (!has_job() && spins < kSpins) {
        pause();
        ++spins;
      }
      if (!has_job()) {
        pthread_mutex_lock(&mutex_);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        while (!has_job() && !stops_) pthread_cond_wait(&work_, &mutex_);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        const bool stops = stops_;
        pthread_mutex_unlock(&mutex_);
        if (stops) return;
      }
      looking_.fetch_add(1, std::memory_order_seq_cst);
      // The job may have ended meanwhile; then the next one waits until nobody looks.
      if (has_job()) take_parts();
      looking_.fetch_sub(1, std::memory_order_release);
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  Memory memory_;
  pthread_mutex_t mutex_;
  pthread_cond_t work_;
  pthread_t* threads_ = nullptr;
  pid_t process_ = getpid();  // whose the threads are
  int wanted_ = 0, started_ = 0;
  bool stops_ = false;  // by mutex_
  std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<uint32_t> job_{0};  // odd while there is one
  std::atomic<int> looking_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  std::atomic<int64_t> left_{0};
  void (*body_)(void*, int64_t) = nullptr;
  void* context_ = nullptr;
  int64_t parts_ = 0;
};

int core_count() {
  cpu_set_t set;
  const long count =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  return threads_within(cpu_quota(), count < kMaxThreads ? static_cast<int>(count) : kMaxThreads);
}

int Threads::start(int count, const Memory& memory) {
  if (count <= 1) return BRIM_RT_OK;
  memory_ = memory;
  void* const block = memory.take(sizeof(OwnThreads));
  if (!block) return BRIM_RT_NO_MEMORY;
  own_ = new (block) OwnThreads(memory);
  if (const int code = own_->start(count)) {
    stop();
    return code;
  }
  lent_ = {count, &OwnThreads::run, own_};
  return BRIM_RT_OK;
}

int Threads::follow_fork() const { return own_ ? own_->follow_fork() : BRIM_RT_OK; }

void Threads::stop() {
  if (!own_) return;
  own_->~OwnThreads();
  memory_.give_back(own_, sizeof(OwnThreads));
  own_ = nullptr;
  lent_ = {1, nullptr, nullptr};
}

}  // namespace brim::rt
