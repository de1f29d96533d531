#include "dist/link_speed.h"

#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>
#include <brim/ops/create.h>

#include <ctime>

#include <algorithm>
#include <cstdio>

#include "core/check.h"
#include "core/clock.h"

namespace brim::dist {
namespace {

constexpr int64_t kSmall = 64, kLarge = 256 << 10;  // f32: the latter 1 MiB
constexpr int kRounds = 8;

double thread_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Times {
  double wall = 0, working = 0;  // seconds; the latter of this thread
};

/// The fastest of some.
Times time_all_reduce(ProcessGroup& group, Device device, int64_t elements) {
  Tensor t = zeros({elements}, {.device = device});
  const Stream stream = Stream::current(device);
  Times best{.wall = 1e9};
  for (int round = 0; round <= kRounds; ++round) {
    stream.synchronize();
    group.barrier();
    const double wall = steady_seconds(), working = thread_seconds();
    all_reduce(group, t);
    stream.synchronize();
    const Times now{steady_seconds() - wall, thread_seconds() - working};
    if (round > 0 && now.wall < best.wall) best = now;  // the first one connects
  }
  return best;
}

}  // namespace

LinkSpeed time_link(ProcessGroup& group, Device device) {
  const NoGrad guard;
  const Times small = time_all_reduce(group, device, kSmall);
  const Times large = time_all_reduce(group, device, kLarge);
  LinkSpeed speed{.latency = small.wall,
                  .seconds_per_byte = std::max(0.0, large.wall - small.wall) / (4.0 * kLarge)};
  if (device.is_cpu()) speed.waiting = std::clamp(1 - large.working / large.wall, 0.0, 1.0);
  const std::string text = group.all_gather_text(
      fmt::format("{} {} {}", speed.latency, speed.seconds_per_byte, speed.waiting))[0];
  const int read = std::sscanf(text.c_str(), "%lf %lf %lf", &speed.latency, &speed.seconds_per_byte,
                               &speed.waiting);
  BRIM_CHECK(read == 3, DistError, "[dist] rank 0's links are '{}'", text);
  return speed;
}

}  // namespace brim::dist
