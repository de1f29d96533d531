// See fma_peak.h.
#include "bench/command/fma_peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/command/fma_peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <vector>

#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::command::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Independent of each other: more than latency times units on any CPU, and fewer than its
/// registers.
constexpr int kChains = 12;

/// `rounds` steps of each chain. `sum` takes a result, so that nothing can be left out.
void chains(int64_t rounds, float* sum) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  hn::Vec<decltype(d)> a[kChains];
  HWY_UNROLL(12)
  for (int c = 0; c < kChains; ++c) a[c] = hn::Iota(d, static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
    HWY_UNROLL(12)
    for (int c = 0; c < kChains; ++c) a[c] = hn::MulAdd(a[c], factor, term);
  }
  auto total = a[0];
  HWY_UNROLL(12)
  for (int c = 1; c < kChains; ++c) total = hn::Add(total, a[c]);
  *sum = hn::GetLane(hn::SumOfLanes(d, total));
}

/// Operations of one round.
int64_t round_flops() {
  return 2 * kChains * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
}

}  // namespace
}  // namespace brim::command::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::command {
namespace {

HWY_EXPORT(chains);
HWY_EXPORT(round_flops);

constexpr int64_t kRounds = 100'000;
constexpr double kSeconds = 0.1;

/// CPU seconds of the calling thread.
double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// What `threads` threads do together: the median over parts of the work, by CPU time, so that a
/// machine that others use shows its peak too.
double gflops(int threads) {
  const double work = static_cast<double>(kRounds * HWY_DYNAMIC_DISPATCH(round_flops)());
  std::vector<double> rates;
  std::atomic<float> sink = 0;
  for (double total = 0; total < kSeconds * threads;) {
    const size_t parts = 4 * static_cast<size_t>(threads), first = rates.size();
    rates.resize(first + parts);
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sum = 0;
        const double start = cpu_seconds();
        HWY_DYNAMIC_DISPATCH(chains)(kRounds, &sum);
        rates[first + static_cast<size_t>(i)] = work / (cpu_seconds() - start);
        sink.store(sum, std::memory_order_relaxed);
      }
    };
    if (threads == 1)
      run(0, static_cast<int64_t>(parts));
    else
      cpu::parallel_for(static_cast<int64_t>(parts), 1, run);
    for (size_t i = first; i < rates.size(); ++i) total += work / rates[i];
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<int64_t>(rates.size() / 2),
                   rates.end());
  return 1e-9 * threads * rates[rates.size() / 2];
}

}  // namespace

FmaPeak fma_peak() {
  FmaPeak peak;
  // More threads than CPUs add nothing.
  const int threads = std::min(num_threads(), available_cpus());
  peak.one_thread = gflops(1);
  peak.all_threads = threads == 1 ? peak.one_thread : gflops(threads);
  peak.isa = cpu::isa();
  return peak;
}

}  // namespace brim::command
#endif
