#include "plan/forecast.h"

#include <algorithm>
#include <vector>

#include "plan/buckets.h"
#include "plan/stream_order.h"

namespace brim::plan {

StepForecast forecast(const Program& program) {
  const StreamOrder order(program);
  StepForecast f;
  double main = 0, side = 0;  // when the streams are free
  std::vector<double> done(program.launches.size());
  const auto wait_until = [&](double end) {
    f.exposed += std::max(0.0, end - main);
    main = std::max(main, end);
  };
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    if (const int last = order.waits_for(i); last >= 0) wait_until(done[static_cast<size_t>(last)]);
    const bool is_collective = launch.communication.has_value();
    const double seconds = is_collective ? seconds_of(launch) : launch.estimated_seconds();
    (is_collective ? f.communication : f.compute) += seconds;
    ++(is_collective ? f.collectives : f.kernels);
    if (launch.on_side_stream) {
      done[i] = side = std::max(side, main) + seconds;
    } else if (is_collective) {
      wait_until(main + seconds);
    } else {
      main += seconds;
    }
  }
  wait_until(side);
  f.step = main;
  return f;
}

}  // namespace brim::plan
