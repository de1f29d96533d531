#include "diag/stolen_time.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <brim/core/threads.h>

#include "diag/span.h"

namespace brim::diag {
namespace {

/// What a thread does on a core. Its waits may end late as well, but are mostly waits.
constexpr Cause kOnCore[] = {Cause::compute,    Cause::staging,   Cause::dispatch,
                             Cause::user,       Cause::allocator, Cause::compile,
                             Cause::checkpoint, Cause::evaluation};
/// What helpers work on, too.
constexpr Cause kKernels[] = {Cause::compute, Cause::compile, Cause::evaluation};

/// Never destroyed: the threads may outlive what is.
struct Helpers {
  std::mutex mutex;
  std::vector<int> threads;
};
Helpers& helpers() {
  static auto* const all = new Helpers;
  return *all;
}

std::vector<double> delays_of_helpers() {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  std::vector<double> delays;
  for (const int thread : all.threads) delays.push_back(std::max(0.0, run_delay(thread)));
  return delays;
}

template <size_t N>
double sum(const Account& account, const Cause (&causes)[N]) {
  double seconds = 0;
  for (const Cause cause : causes) seconds += account.seconds[static_cast<size_t>(cause)];
  return seconds;
}

}  // namespace

double run_delay(int thread) {
  char path[64] = "/proc/thread-self/schedstat";
  if (thread) std::snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[96] = {};  // nanoseconds on a core, in a queue, and how often it was given one
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return -1;
  char* end = text;
  (void)std::strtoull(text, &end, 10);
  return static_cast<double>(std::strtoull(end, nullptr, 10)) * 1e-9;
}

void list_helper_thread() {
  Helpers& all = helpers();
  const std::lock_guard lock(all.mutex);
  all.threads.push_back(gettid());
}

StolenTime::StolenTime()
    : last_(run_delay()),
      helpers_(delays_of_helpers()),
      own_late_(last_),
      helpers_late_(helpers_) {}

void StolenTime::charge(Cause cause, double seconds) {
  const double now = run_delay();
  if (now < 0) return;
  seconds_[static_cast<size_t>(cause)] += std::clamp(now - last_, 0.0, seconds);
  last_ = now;
}

void StolenTime::charge_late(double waited, double alone, double delay, int threads) {
  const double own = run_delay();
  if (own < 0) return;
  const std::vector<double> helpers = delays_of_helpers();
  double longest = 0;
  for (size_t i = 0; i < helpers.size(); ++i)
    longest = std::max(longest, helpers[i] - (i < helpers_late_.size() ? helpers_late_[i] : 0));
  // One of them had no core, and the others waited: on a core or asleep, else it counts already.
  if (delay < 0) delay = own;
  waited = std::max(0.0, waited - (own - delay));
  alone = std::max(0.0, alone - longest);
  late_ +=
      (std::min(waited, longest) + std::min(alone, delay - own_late_)) * (threads - 1) / threads;
  own_late_ = own;
  helpers_late_ = helpers;
}

void StolenTime::move(Account& account, double helped) const {
  const double now = run_delay();
  if (now < 0) return;
  std::array<double, kCauseCount> taken = seconds_;
  const auto spread = [&](double seconds, const auto& causes) {
    const double all = sum(account, causes);
    if (seconds <= 0 || all <= 0) return;
    for (const Cause cause : causes) {
      const auto i = static_cast<size_t>(cause);
      taken[i] += seconds * account.seconds[i] / all;
    }
  };
  spread(now - last_, kOnCore);

  // Of its kernels: the mean over the threads.
  const double kernels = sum(account, kKernels);
  if (helped > 0 && kernels > 0) {
    for (const Cause cause : kKernels)
      taken[static_cast<size_t>(cause)] *= 1 - std::min(helped / kernels, 1.0);
    double of_helpers = 0;
    const std::vector<double> delays = delays_of_helpers();
    for (size_t i = 0; i < delays.size(); ++i)
      of_helpers += delays[i] - (i < helpers_.size() ? helpers_[i] : 0);
    const auto threads = std::min(delays.size() + 1, static_cast<size_t>(num_threads()));
    spread(of_helpers / static_cast<double>(threads) + late_, kKernels);
  }

  double& stolen = account.seconds[static_cast<size_t>(Cause::stolen)];
  for (size_t i = 0; i < kCauseCount; ++i) {
    const double part = std::min(taken[i], account.seconds[i]);
    account.seconds[i] -= part;
    stolen += part;
  }
}

namespace {
double seconds_of(uint64_t ticks) { return static_cast<double>(ticks) / ticks_per_us() * 1e-6; }
}  // namespace

void Join::charge() const {
  const uint64_t now = ticks(), worked = worked_ ? worked_ : now;
  const double waited = seconds_of(now - worked);
  const double alone = slept_ ? seconds_of(worked - std::min(slept_, worked)) : 0;
  // Where all have a core, they end together within that.
  constexpr double kLate = 0.3e-3;
  if (waited >= kLate || alone >= kLate)
    meter_->stolen->charge_late(waited, alone, delay_, static_cast<int>(meter_->threads));
}

void charge_stolen(StolenTime& stolen, Cause cause, uint64_t ticks) {
  stolen.charge(cause, seconds_of(ticks));
}

}  // namespace brim::diag
