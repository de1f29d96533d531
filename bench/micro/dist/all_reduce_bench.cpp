// Seconds of an all-reduce between the ranks of a launcher, as JSON of rank 0: medians over
// repetitions, the slowest rank's each time.
//
//   brim launch -n 4 build/bench/all_reduce_bench BYTES REPETITIONS
//   build/bench/all_reduce_bench BYTES REPETITIONS THREADS      # of ranks that are threads
#include <brim/core/threads.h>
#include <brim/dist/launch.h>
#include <brim/ops/create.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/clock.h"

namespace {

using namespace brim;

void measure(dist::ProcessGroup& world, int64_t count, int repetitions) {
  Tensor x = full({count}, 1.0 / world.size());
  std::vector<double> seconds;
  for (int i = 0; i < repetitions + 2; ++i) {
    world.barrier();
    const double begin = steady_seconds();
    dist::all_reduce(world, x);
    Tensor took = full({}, steady_seconds() - begin, {.dtype = f64});
    dist::all_reduce(world, took, dist::Reduce::max);
    if (i >= 2) seconds.push_back(took.item());
  }
  std::ranges::sort(seconds);
  if (world.rank() == 0)
    fmt::print("{{\"bytes\": {}, \"ranks\": {}, \"backend\": \"{}\", \"seconds\": {:.6f}}}\n",
               count * 4, world.size(), world.backend(), seconds[seconds.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t count = (argc > 1 ? std::atoll(argv[1]) : 100'000'000) / 4;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 10;
  set_num_threads(1);
  if (argc > 3)
    dist::run_ranks(dist::local_groups(std::atoi(argv[3])),
                    [&](dist::ProcessGroup& world) { measure(world, count, repetitions); });
  else
    measure(*dist::open_world(), count, repetitions);
  return 0;
}
