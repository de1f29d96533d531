#include "command/live_run.h"

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "command/metrics_server.h"
#include "command/monitor_report.h"
#include "command/say.h"
#include "core/clock.h"

namespace brim::command {

LiveRun::LiveRun(RunIdentity identity, const std::vector<Device>& devices)
    : log_(identity.rank > 0 ? "" : identity.folder),
      board_(devices),
      document_(std::move(identity), board_) {}

LiveRun::~LiveRun() {
  if (has_ended_ || !has_reports()) return;
  try {
    end(train::RunPhase::failed);
  } catch (const std::exception&) {  // no memory for the report: there is none
  }
}

void LiveRun::serve(const WatchArguments& how, bool quiet) {
  if (!how.metrics.empty()) {
    const MetricsAddress address = parse_metrics_address(how.metrics);
    metrics_ = serve_metrics(address, how.metrics_token, document_);
    if (!quiet)
      say(stdout, "metrics: http://{}:{}/metrics\n",
          address.host.find(':') == std::string::npos ? address.host : "[" + address.host + "]",
          metrics_->port());
  }
  try {
    server_.emplace([this] { return document_.json().dump(); });
  } catch (const Error& e) {
    unwatched_ = e.what() + std::string("; `brim top` did not see this run");
  }
}

void LiveRun::add_reading(const diag::Reading& reading) {
  nlohmann::ordered_json line = {{"time", unix_seconds()}};
  line.update(reading_json(reading));
  log_.add_reading(line);
  document_.set_reading(reading);
}

void LiveRun::end(train::RunPhase phase) {
  has_ended_ = true;
  board_.set_phase(phase);
  add_report();
}

}  // namespace brim::command
