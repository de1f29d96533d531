#include "plan/forecast.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backend/host_copy.h"
#include "plan/buckets.h"
#include "plan/stream_order.h"

namespace brim::plan {

StepForecast forecast(const Program& program, std::span<const double> measured) {
  const StreamOrder order(program);
  StepForecast f;
  std::array<double, backend::kPlanStreams> free_at{};  // by stream
  double& main = free_at[static_cast<size_t>(PlanStream::main)];
  std::vector<double> done(program.launches.size());
  const auto wait_until = [&](double end, bool is_collective) {
    (is_collective ? f.exposed : f.exposed_copies) += std::max(0.0, end - main);
    main = std::max(main, end);
  };
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    for (const int last : order.waits_for(i)) {
      const auto met = static_cast<size_t>(last);
      wait_until(done[met], program.launches[met]->communication.has_value());
    }
    const bool is_collective = launch.communication.has_value();
    const bool is_copy = backend::is_host_copy(launch);
    const double seconds = is_collective      ? seconds_of(launch)
                           : measured.empty() ? launch.estimated_seconds()
                                              : measured[i];
    (is_collective ? f.communication : is_copy ? f.copies : f.compute) += seconds;
    if (!is_copy) ++(is_collective ? f.collectives : f.kernels);
    if (launch.stream != PlanStream::main) {
      double& beside = free_at[static_cast<size_t>(launch.stream)];
      done[i] = beside = std::max(beside, main) + seconds;
    } else if (is_collective) {
      wait_until(main + seconds, true);
    } else {
      main += seconds;
    }
  }
  wait_until(free_at[static_cast<size_t>(PlanStream::collectives)], true);
  for (const double end : free_at) wait_until(end, false);
  f.step = main;
  return f;
}

}  // namespace brim::plan
