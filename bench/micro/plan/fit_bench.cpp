// How long it takes to choose what a step keeps, moves and computes again: chains of 2 N launches,
// whose N activations take 40, 60 and 80 % of what they would take together. `longer` is what the
// step found takes longer than one without a limit, `at_least` what any choice takes longer.
//
//   build/bench/fit_bench [--benchmark_filter=activations:1500]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "plan/fit.h"

namespace brim::plan {
namespace {

/// Layers of random sizes and times, whose copies take longer than they do.
FitProblem random_chain(int layers, double share) {
  std::mt19937 random(1);
  const auto drawn = [&random](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  FitProblem p;
  p.others.assign(2 * static_cast<size_t>(layers), 0);
  double all = 0;
  for (int i = 0; i < layers; ++i) {
    p.seconds.push_back(drawn(0.5, 1.5));
    const auto bytes = static_cast<int64_t>(drawn(1e6, 64e6));
    const double copy = static_cast<double>(bytes) / 8e6;
    all += static_cast<double>(bytes);
    p.activations.push_back({.bytes = bytes,
                             .made_by = i,
                             .last_before = std::min(i + 1, layers - 1),
                             .first_after = 2 * layers - 1 - i,
                             .last_use = 2 * layers - 1 - i,
                             .to_host = copy,
                             .to_device = copy,
                             .recompute = random() % 4 == 0 ? kImpossible : p.seconds.back(),
                             .made_of = i > 0 ? std::vector<int>{i - 1} : std::vector<int>{}});
  }
  for (int i = layers - 1; i >= 0; --i) p.seconds.push_back(2 * p.seconds[static_cast<size_t>(i)]);
  p.limit = static_cast<int64_t>(share * all);
  return p;
}

void choose(benchmark::State& state) {
  const FitProblem problem =
      random_chain(static_cast<int>(state.range(0)), static_cast<double>(state.range(1)) / 100);
  std::vector<std::vector<Choice>> found;
  for (auto _ : state) found = solve(problem);
  if (found.empty()) {
    state.SkipWithError("nothing fits");
    return;
  }
  const double whole = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
  state.counters["longer"] = schedule(problem, found[0]).seconds / whole - 1;
  state.counters["at_least"] = step_bound(problem) / whole;
}
BENCHMARK(choose)
    ->ArgNames({"activations", "percent"})
    ->ArgsProduct({{100, 500, 1500}, {40, 60, 80}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace brim::plan

BENCHMARK_MAIN();
