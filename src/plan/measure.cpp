// What a plan's launches take on the device that they are for.
#include <algorithm>
#include <chrono>

#include "core/context.h"
#include "plan/launch_time.h"
#include "plan/plan.h"

namespace brim::plan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

/// All on one stream, since launches that run beside each other cannot be told apart; collectives
/// are left out.
void Plan::run_timed(const Context& context) {
  for (size_t i = 0; i < program_.launches.size(); ++i) {
    Launch& launch = *program_.launches[i];
    if (launch.communication) continue;
    const auto begin = Clock::now();
    launch.run(context);
    (*measured_)[i].push_back(seconds_since(begin));
  }
}

std::vector<double> Plan::measure(std::span<const Tensor> inputs) {
  constexpr double kSeconds = 0.5;
  constexpr int kMinSteps = 5, kWarmUp = 2;
  const size_t launches = program_.launches.size();
  std::vector<double> seconds(launches);
  if (!program_.device.is_cpu()) {
    for (size_t i = 0; i < launches; ++i)
      if (Launch& launch = *program_.launches[i]; !launch.communication)
        seconds[i] = launch_time(launch);
    return seconds;
  }
  struct Measuring {
    std::optional<std::vector<std::vector<double>>>& measured;
    ~Measuring() { measured.reset(); }
  } measuring{measured_};
  std::vector<RandomKey> keys;  // the step's generators go on as if nothing had been drawn
  for (const Program::Draws& d : program_.draws) keys.push_back(d.generator->state());
  const auto run_steps = [&](int count, double duration) {
    measured_.emplace(launches);
    const auto begin = Clock::now();
    for (int i = 0; i < count || seconds_since(begin) < duration; ++i) {
      replay(inputs);
      if (prepare() != Fit::fits) break;
    }
  };
  run_steps(kWarmUp, 0);
  run_steps(kMinSteps, kSeconds);
  for (size_t i = 0; i < keys.size(); ++i) program_.draws[i].generator->set_state(keys[i]);
  for (size_t i = 0; i < launches; ++i)
    if (!(*measured_)[i].empty()) seconds[i] = median_of((*measured_)[i]);
  return seconds;
}

}  // namespace brim::plan
