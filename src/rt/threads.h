// The threads of a session: its own, or those of the program.
#pragma once

#include <cstdint>

#include <brim_rt.h>

#include "rt/memory.h"

namespace brim::rt {

class OwnThreads;

class Threads {
 public:
  Threads() = default;
  ~Threads() { stop(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// A thread less than `count` is started: the caller works, too. BRIM_RT_OK, NO_MEMORY or
  /// NO_THREAD.
  int start(int count, const Memory& memory);
  void borrow(const brim_rt_threads& threads) { lent_ = threads; }
  void stop();
  /// Before runs: a child of fork() starts own threads anew. BRIM_RT_OK or NO_THREAD.
  int follow_fork() const;

  int count() const { return lent_.count; }
  /// Calls body(context, part) for each part, on any of the threads.
  void run(int64_t parts, void (*body)(void* context, int64_t part), void* context) const {
    if (parts > 1 && lent_.count > 1) return lent_.run(lent_.user, parts, body, context);
    for (int64_t part = 0; part < parts; ++part) body(context, part);
  }

 private:
  brim_rt_threads lent_{1, nullptr, nullptr};
  OwnThreads* own_ = nullptr;
  Memory memory_;
};

inline constexpr int kMaxThreads = 1024;  ///< of a session

/// Those that this process may run on, within its cgroup's quota, or kMaxThreads where there are
/// more.
int core_count();

/// How many rows of `each` operations are worth a thread that is worth `least`: 1 or more. In
/// floating point, since products of what a file says may be beyond integers.
inline int64_t rows_worth_a_thread(double least, double each) {
  return each < 1       ? static_cast<int64_t>(least)
         : each < least ? static_cast<int64_t>(least / each)
                        : 1;
}

/// Calls body(part, begin, end) on parts that cover [0, n), as many as there are threads at most,
/// of at least `grain` each where n allows. Parts are numbered, for scratch memory.
template <class Body>
void parallel_parts(const Threads& threads, int64_t n, int64_t grain, const Body& body) {
  const int64_t all = grain > 1 ? n / grain : n;
  const int64_t parts = all < 1 ? 1 : all < threads.count() ? all : threads.count();
  if (parts == 1) return body(int64_t{0}, int64_t{0}, n);
  struct Job {
    const Body& body;
    int64_t n, parts;
  } job{body, n, parts};
  threads.run(
      parts,
      [](void* context, int64_t part) {
        const Job& j = *static_cast<const Job*>(context);
        j.body(part, j.n * part / j.parts, j.n * (part + 1) / j.parts);
      },
      &job);
}

}  // namespace brim::rt
