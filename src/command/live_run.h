// What others see of a run while it goes on: a socket for `brim top`, a port for Prometheus, and
// the files in its folder.
#pragma once

#include <brim/diag/monitor.h>
#include <brim/train/status.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command/http/server.h"
#include "command/run_document.h"
#include "command/run_log.h"
#include "command/status_server.h"
#include "command/watch_options.h"

namespace brim::command {

class LiveRun {
 public:
  /// `devices`: those of its trainings.
  LiveRun(RunIdentity identity, const std::vector<Device>& devices);
  /// A run without an end has failed; its folder has that where it has reports.
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  /// Opens the port, if one is asked for, and prints its address unless `quiet`; and the socket.
  /// Throws Error, UsageError where the port cannot be opened. Without a socket the run goes on.
  void serve(const WatchArguments& how, bool quiet);
  /// Why there is no socket; empty: there is one.
  const std::string& unwatched() const { return unwatched_; }

  train::StatusBoard& board() { return board_; }
  RunDocument& document() { return document_; }

  void add_report() { log_.add_report(document_.history_line()); }
  void add_reading(const diag::Reading& reading);
  bool has_reports() const { return log_.has_reports(); }
  /// The last report.
  void end(train::RunPhase phase);
  bool has_ended() const { return has_ended_; }
  /// Of the files, once all is written.
  std::vector<std::string> errors() const { return log_.errors(); }

 private:
  RunLog log_;
  train::StatusBoard board_;
  RunDocument document_;
  bool has_ended_ = false;
  std::unique_ptr<http::Server> metrics_;  // these end before what they serve
  std::optional<StatusServer> server_;
  std::string unwatched_;
};

}  // namespace brim::command
