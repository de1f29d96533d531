#include "diag/stolen_time.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include <brim/core/threads.h>

#include "core/thread_id.h"
#include "diag/span.h"

namespace brim::diag {
namespace {

/// What a thread does on a core: sums of gradients, and messages to and fro, as well. Its other
/// waits may end late, but are mostly waits.
constexpr Cause kOnCore[] = {Cause::compute,    Cause::staging,    Cause::dispatch,
                             Cause::user,       Cause::allocator,  Cause::compile,
                             Cause::checkpoint, Cause::evaluation, Cause::communication};
/// Those of has_helpers().
constexpr Cause kKernels[] = {Cause::compute, Cause::compile, Cause::evaluation};

/// Seconds that the calling thread has run on a core so far.
double time_on_core() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds_of(uint64_t ticks) { return static_cast<double>(ticks) / ticks_per_us() * 1e-6; }

/// The helpers of kernels, and what they were stolen while they worked for each measured thread.
/// Never destroyed: the threads may outlive what is.
struct Helpers {
  std::mutex mutex;
  std::vector<int> threads;
  std::atomic<int> owner{0};   // the thread that they work for, or did last
  std::vector<double> delays;  // when settle() was last
  uint64_t settled = 0;        // when that was
  struct Measured {
    int owner;
    int accounts;
    double stolen;
  };
  std::vector<Measured> measured;

  /// Charges what came since the last call to whom they worked for.
  void settle();
};
Helpers& helpers() {
  static auto* const all = new Helpers;
  return *all;
}

/// `before` where one cannot be read.
std::vector<double> delays_of_helpers(const std::vector<double>& before = {}) {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  std::vector<double> delays;
  for (size_t i = 0; i < all.threads.size(); ++i)
    delays.push_back(run_delay(all.threads[i], i < before.size() ? before[i] : 0));
  return delays;
}

void Helpers::settle() {
  settled = ticks();
  double came = 0;
  for (size_t i = 0; i < threads.size(); ++i) {
    if (delays.size() <= i) delays.push_back(0);
    const double now = run_delay(threads[i], delays[i]);
    came += now - delays[i];
    delays[i] = now;
  }
  for (Measured& m : measured)
    if (m.owner == owner.load(std::memory_order_relaxed)) m.stolen += came;
}

/// What helpers were stolen for this thread so far, while it was measured.
double stolen_of_helpers() {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  all.settle();
  for (const Helpers::Measured& m : all.measured)
    if (m.owner == thread_id()) return m.stolen;
  return 0;
}

/// The largest that came to them since `before`; a new one's is its own from the start.
double largest_since(const std::vector<double>& before, const std::vector<double>& now) {
  double largest = 0;
  for (size_t i = 0; i < now.size(); ++i)
    largest = std::max(largest, now[i] - (i < before.size() ? before[i] : 0));
  return largest;
}

template <size_t N>
double sum(const Account& account, const Cause (&causes)[N]) {
  double seconds = 0;
  for (const Cause cause : causes) seconds += account.seconds[static_cast<size_t>(cause)];
  return seconds;
}

}  // namespace

double run_delay(int thread, double otherwise) {
  char path[64] = "/proc/thread-self/schedstat";
  if (thread) std::snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return otherwise;
  char text[96] = {};  // nanoseconds on a core, in a queue, and how often it was given one
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return otherwise;
  char* end = text;
  (void)std::strtoull(text, &end, 10);
  return static_cast<double>(std::strtoull(end, nullptr, 10)) * 1e-9;
}

void take_helpers() {
  Helpers& all = helpers();
  if (all.owner.load(std::memory_order_relaxed) == thread_id()) [[likely]]
    return;
  const std::lock_guard lock(all.mutex);
  // Threads that take turns at short kernels are not told apart: reading would take longer.
  const double since = seconds_of(ticks() - all.settled);
  if (!all.measured.empty() && since > 1e-3 * static_cast<double>(all.threads.size())) all.settle();
  all.owner.store(thread_id(), std::memory_order_relaxed);
}

void list_helper_thread() {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  all.threads.push_back(thread_id());
}

StolenTime::StolenTime()
    : thread_(thread_id()),
      last_(run_delay(0, kUnknownDelay)),
      late_(last_),
      on_core_(time_on_core()),
      helpers_late_(delays_of_helpers()) {
  {
    Helpers& all = helpers();
    const std::lock_guard lock(all.mutex);
    if (all.measured.empty()) all.settle();  // what came before was nobody's
    const auto known = std::ranges::find(all.measured, thread_, &Helpers::Measured::owner);
    if (known == all.measured.end())
      all.measured.push_back({thread_, 1, 0});
    else
      ++known->accounts;
  }
  helpers_ = stolen_of_helpers();
}

StolenTime::~StolenTime() {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  const auto known = std::ranges::find(all.measured, thread_, &Helpers::Measured::owner);
  if (known != all.measured.end() && --known->accounts == 0) all.measured.erase(known);
}

double StolenTime::charge(Cause cause, double seconds) {
  const double now = run_delay(0, last_), on_core = time_on_core();
  const double came = std::max(0.0, now - last_);
  // As much as it took and more: it had a core at times, as what came before, which was stolen from
  // as well.
  const double stolen =
      came <= seconds ? came : seconds * came / (came + std::max(0.0, on_core - on_core_));
  seconds_[static_cast<size_t>(cause)] += stolen;
  before_ += came - stolen;
  last_ = late_ = now;
  on_core_ = on_core;
  return stolen;
}

void StolenTime::absorb(const StolenTime& inner) {
  for (size_t i = 0; i < kCauseCount; ++i) seconds_[i] += inner.seconds_[i];
  late_seconds_ += inner.late_seconds_;
  before_ += inner.before_;
  last_ = late_ = inner.last_;
  on_core_ = inner.on_core_;
}

void StolenTime::begin_wait() {
  waits_ = run_delay(0, last_);
  helpers_waits_ = delays_of_helpers(helpers_late_);
}

void StolenTime::end_wait(double waited, double alone, int threads) {
  const double now = run_delay(0, last_);
  const std::vector<double> helpers = delays_of_helpers(helpers_late_);
  double late = 0;
  if (waited > 0) {
    // While it had no core itself counts already.
    const double on_core = std::max(0.0, waited - (now - waits_));
    late += std::min(on_core, largest_since(helpers_waits_, helpers));
  }
  if (alone > 0) {
    // While they had none, too.
    const double asleep = std::max(0.0, alone - largest_since(helpers_late_, helpers));
    late += std::min(asleep, std::max(0.0, (waited > 0 ? waits_ : now) - late_));
  }
  late_seconds_ += late * (threads - 1) / threads;
  late_ = now;
  helpers_late_ = helpers;
}

double StolenTime::patience() const {
  return std::max(0.3e-3, 50e-6 * static_cast<double>(helpers_late_.size()));
}

void StolenTime::move(Account& account, double helped) const {
  const double now = run_delay(0, last_);
  std::array<double, kCauseCount> taken = seconds_;
  const auto spread = [&](double seconds, const auto& causes) {
    const double all = sum(account, causes);
    if (seconds <= 0 || all <= 0) return;
    for (const Cause cause : causes) {
      const auto i = static_cast<size_t>(cause);
      taken[i] += seconds * account.seconds[i] / all;
    }
  };
  spread(before_ + now - last_, kOnCore);

  // Of its kernels: the mean over the threads.
  const double kernels = sum(account, kKernels);
  if (helped > 0 && kernels > 0) {
    for (const Cause cause : kKernels)
      taken[static_cast<size_t>(cause)] *= 1 - std::min(helped / kernels, 1.0);
    const auto threads =
        std::min(helpers_late_.size() + 1, static_cast<size_t>(std::max(num_threads(), 1)));
    const double of_helpers =
        (stolen_of_helpers() - helpers_) / static_cast<double>(threads) + late_seconds_;
    spread(std::min(of_helpers, helped), kKernels);  // they could have helped no more
  }

  double& stolen = account.seconds[static_cast<size_t>(Cause::stolen)];
  for (size_t i = 0; i < kCauseCount; ++i) {
    const double part = std::min(taken[i], account.seconds[i]);
    account.seconds[i] -= part;
    stolen += part;
  }
}

// Without memory for the counts, nothing is known of this wait.
void Join::begin_wait() noexcept {
  try {
    meter_->stolen->begin_wait();
    asked_ = true;
  } catch (const std::bad_alloc&) {
  }
}

void Join::end_wait() const noexcept {
  const uint64_t now = ticks(), worked = worked_ ? worked_ : now;
  const double waited = seconds_of(now - worked);
  const double alone = slept_ ? seconds_of(worked - std::min(slept_, worked)) : 0;
  if (std::max(waited, alone) < meter_->stolen->patience()) return;
  try {
    meter_->stolen->end_wait(asked_ ? waited : 0, alone, static_cast<int>(meter_->threads));
  } catch (const std::bad_alloc&) {
  }
}

void charge_stolen(const Meter& meter, Cause cause, uint64_t ticks, uint64_t at) {
  const double stolen = meter.stolen->charge(cause, seconds_of(ticks));
  if (stolen > 0 && meter.listener)
    meter.listener->was_stolen(static_cast<uint64_t>(stolen * 1e6 * ticks_per_us()), at);
}

}  // namespace brim::diag
