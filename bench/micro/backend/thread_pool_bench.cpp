// What a parallel loop costs beyond its work: parts that do nothing, parts of a microsecond, and
// loops that come after a pause in which the threads fell asleep. The machine should have nothing
// else to do; the column `min` is the least of the repetitions.
//
//   build/bench/thread_pool_bench --benchmark_repetitions=15 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <brim/core/threads.h>

#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {
namespace {

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

/// Keeps a core busy for about `steps` dependent multiplications.
void work(int64_t steps) {
  double x = 1.0000001;
  for (int64_t i = 0; i < steps; ++i) benchmark::DoNotOptimize(x *= 1.0000001);
}

/// A loop of `parts` parts that do nothing.
void empty_loop(benchmark::State& state) {
  const int64_t parts = state.range(0);
  for (auto _ : state)
    parallel_for(parts, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
}
BENCHMARK(empty_loop)->ArgName("parts")->Arg(2)->Arg(8)->ComputeStatistics("min", least);

/// As above with some serial work between loops, as a network's small kernels are.
void empty_loop_after_work(benchmark::State& state) {
  for (auto _ : state) {
    work(1000);
    parallel_for(8, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
  }
}
void only_work(benchmark::State& state) {
  for (auto _ : state) work(1000);
}
BENCHMARK(empty_loop_after_work)->ComputeStatistics("min", least);
BENCHMARK(only_work)->ComputeStatistics("min", least);

/// 8 parts of `steps` steps each: in parallel, and alone in one thread.
void busy_loop(benchmark::State& state) {
  const int threads = num_threads();
  if (state.range(1) == 1) set_num_threads(1);
  for (auto _ : state)
    parallel_for(8, 1, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) work(state.range(0));
    });
  set_num_threads(threads);
}
BENCHMARK(busy_loop)
    ->ArgNames({"steps", "alone"})
    ->ArgsProduct({{300, 3000}, {0, 1}})
    ->ComputeStatistics("min", least);

/// A short loop after half a millisecond of sleep: the threads sleep too.
void loop_after_sleep(benchmark::State& state) {
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const auto begin = std::chrono::steady_clock::now();
    parallel_for(8, 1, [](int64_t, int64_t) { work(300); });
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(spent.count());
  }
}
BENCHMARK(loop_after_sleep)->UseManualTime()->ComputeStatistics("min", least);

}  // namespace
}  // namespace brim::cpu

BENCHMARK_MAIN();
