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
namespace brim::cli::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// `rounds` rounds of twelve independent chains: more than latency times units on any CPU, and
/// fewer than its registers. `sum` takes a result, so that nothing can be left out.
void chains(int64_t rounds, float* sum) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  auto a0 = hn::Iota(d, 0), a1 = hn::Iota(d, 1), a2 = hn::Iota(d, 2), a3 = hn::Iota(d, 3);
  auto a4 = hn::Iota(d, 4), a5 = hn::Iota(d, 5), a6 = hn::Iota(d, 6), a7 = hn::Iota(d, 7);
  auto a8 = hn::Iota(d, 8), a9 = hn::Iota(d, 9), a10 = hn::Iota(d, 10), a11 = hn::Iota(d, 11);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term);
    a7 = hn::MulAdd(a7, factor, term);
    a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term);
    a10 = hn::MulAdd(a10, factor, term);
    a11 = hn::MulAdd(a11, factor, term);
  }
  const auto low = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  const auto high = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  *sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

/// Operations of one round.
int64_t round_flops() { return 2 * 12 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace
}  // namespace brim::cli::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cli {
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

}  // namespace brim::cli
#endif
