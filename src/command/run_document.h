// What a running training tells the outside: one JSON document (docs/WATCHING.md, "brim.run/1").
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include <brim/diag/monitor.h>
#include <brim/train/status.h>

#include "command/train_request.h"

namespace brim::command {

/// "training": as `state` has it.
const char* state_word(train::RunPhase phase);

/// Makes the document for any thread, from what the training has published.
class RunDocument {
 public:
  /// Both outlive it.
  RunDocument(const TrainRequest& request, const train::StatusBoard& board);

  /// The newest reading of the sensors.
  void set_reading(const diag::Reading& reading);
  void set_steps_before(int64_t steps) { steps_before_ = steps; }
  std::optional<diag::Reading> reading() const;
  const TrainRequest& request() const { return request_; }

  train::RunStatus status() const { return board_.read(); }
  /// Of the card that a device is; "" where nothing names it.
  std::string uuid_of(Device device) const;

  nlohmann::ordered_json json() const;
  /// As a line of train::kHistoryFile: without what says nothing later.
  nlohmann::ordered_json history_line() const;

 private:
  /// Joules that a device has used since the first reading; empty where no sensor tells.
  std::optional<double> energy_of(Device device) const;

  const TrainRequest& request_;
  const train::StatusBoard& board_;
  const double started_;
  std::atomic<int64_t> steps_before_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<Device, std::string>> uuids_;  // asked once
  std::optional<diag::Reading> first_, reading_;
};

}  // namespace brim::command
