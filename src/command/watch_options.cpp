#include "command/watch_options.h"

#include <fmt/format.h>

#include "command/command.h"
#include "command/metrics_server.h"

namespace brim::command {

void add_watch_options(Arguments args, WatchArguments& o) {
  args.add("--monitor", o.monitor,
           "seconds between readings of sensors (GPU, CPU load), kept in the --out folder; 0: none")
      .range(0.0, 3600.0)
      .show_default();
  args.add("--metrics", o.metrics,
           "[HOST:]PORT where Prometheus finds the run's metrics, at /metrics");
  args.add("--metrics-token", o.metrics_token,
           "file with the token that clients of --metrics must show; needed for hosts other than "
           "this one");
  args.add("--tensorboard", o.tensorboard,
           "folder for TensorBoard: loss, metrics, weights, gradients, sensors, the account");
}

void check_watch_options(const WatchArguments& o) {
  if (!o.metrics.empty())
    check_metrics(parse_metrics_address(o.metrics), o.metrics_token);
  else if (!o.metrics_token.empty())
    throw UsageError("--metrics-token is of --metrics, which is not there");
  if (o.monitor > 0 && o.monitor < 0.01)
    throw UsageError(
        fmt::format("--monitor {} is too often; use 0.01 or more, or 0 for none", o.monitor));
}

}  // namespace brim::command
