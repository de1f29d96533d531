#include "dist/link_speed.h"

#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>
#include <brim/ops/create.h>
#include <brim/plan/compile.h>

#include <ctime>

#include <algorithm>
#include <charconv>

#include "core/check.h"
#include "core/clock.h"

namespace brim::dist {
namespace {

// Of f32: both so large that they are reduced in parts, as buckets of gradients are.
constexpr int64_t kSmall = 64 << 10, kLarge = 512 << 10;
constexpr int kWarmUps = 4, kRounds = 8;  // until a GPU has a graph, for one

double thread_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Times {
  double wall = 0, working = 0;  // seconds; the latter of this thread
};

/// The fastest of some, as compiled steps make them.
Times time_all_reduce(ProcessGroup& group, Device device, int64_t elements) {
  Tensor t = zeros({elements}, {.device = device});
  auto step = compile([&] { all_reduce(group, t); }, {.passes = "memory"});
  const Stream stream = Stream::current(device);
  Times best{.wall = 1e9};
  for (int round = 0; round < kWarmUps + kRounds; ++round) {
    stream.synchronize();
    group.barrier();
    const double wall = steady_seconds(), working = thread_seconds();
    step();
    stream.synchronize();
    const Times now{steady_seconds() - wall, thread_seconds() - working};
    if (round >= kWarmUps && now.wall < best.wall) best = now;
  }
  return best;
}

}  // namespace

LinkSpeed time_link(ProcessGroup& group, Device device) {
  const NoGrad guard;
  const Times small = time_all_reduce(group, device, kSmall);
  const Times large = time_all_reduce(group, device, kLarge);
  LinkSpeed speed{.seconds_per_byte =
                      std::max(0.0, large.wall - small.wall) / (4.0 * (kLarge - kSmall))};
  speed.latency = std::max(1e-6, small.wall - 4.0 * kSmall * speed.seconds_per_byte);
  if (device.is_cpu()) speed.waiting = std::clamp(1 - large.working / large.wall, 0.0, 1.0);
  const std::string text = group.all_gather_text(
      fmt::format("{} {} {}", speed.latency, speed.seconds_per_byte, speed.waiting))[0];
  const char *at = text.data(), *const end = at + text.size();
  for (double* const value : {&speed.latency, &speed.seconds_per_byte, &speed.waiting}) {
    const auto [next, error] = std::from_chars(at, end, *value);
    BRIM_CHECK(error == std::errc(), DistError, "[dist] rank 0's links are '{}'", text);
    at = next + (next < end);
  }
  return speed;
}

}  // namespace brim::dist
