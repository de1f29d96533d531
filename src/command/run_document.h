// What a running training tells the outside: one JSON document (docs/WATCHING.md, "brim.run/1").
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <brim/diag/monitor.h>
#include <brim/train/recipe.h>
#include <brim/train/status.h>

#include "command/device_roof.h"
#include "core/clock.h"

namespace brim::command {

/// Which run it is.
struct RunIdentity {
  std::string command = "train";
  train::Recipe recipe;
  std::string folder;  ///< of its files; empty: there are none
  int rank = 0, ranks = 1;
};

/// "training": as `state` has it.
const char* state_word(train::RunPhase phase);

/// What a run has done, all of one moment.
struct RunCounts {
  /// Of the newest training; its images, samples left out, checkpoints and accounts are of all
  /// trainings of this process so far.
  train::RunStatus status;
  int64_t steps = 0;         ///< of all trainings of this process
  int64_t steps_before = 0;  ///< of the run, before the first one that the status counts
};

/// Makes the document for any thread, from what the training has published. Of a run with several
/// trainings, one after the other, what is counted is of all of them.
class RunDocument {
 public:
  /// The board outlives it.
  RunDocument(RunIdentity identity, train::StatusBoard& board);

  /// The newest reading of the sensors. `at`: of steady_seconds().
  void set_reading(const diag::Reading& reading, double at = steady_seconds());
  /// Of the trainings that an earlier process ended.
  void set_earlier_steps(int64_t steps);
  /// Of the training, before it was resumed.
  void set_steps_before(int64_t steps);
  /// Another training follows, if there was one: the board is its from here on.
  void begin_training();
  /// Of a search, the network that it is at, from 1.
  void set_point(int64_t point, int64_t points) { point_ = point, points_ = points; }
  /// Empty: it is no search, or has made no network yet.
  std::optional<int64_t> point() const {
    return points_ > 0 ? std::optional(point_.load()) : std::nullopt;
  }
  /// The newest; empty where there is none, or the sensors have stopped answering.
  std::optional<diag::Reading> reading() const;
  const RunIdentity& identity() const { return identity_; }

  RunCounts counts() const;
  /// Of the card that a device is; "" where nothing names it.
  std::string uuid_of(Device device) const;

  nlohmann::ordered_json json() const;
  /// As a line of train::kHistoryFile: without what says nothing later.
  nlohmann::ordered_json history_line() const;

 private:
  /// All, or what a line of the history keeps.
  nlohmann::ordered_json json(bool live) const;
  /// The first device's, if it is known on this machine.
  DeviceRoof roof() const;
  /// Joules that a device has used since the first reading; empty where no sensor tells.
  std::optional<double> energy_of(Device device) const;

  const RunIdentity identity_;
  train::StatusBoard& board_;
  const double started_;
  std::atomic<int64_t> point_{0}, points_{0};
  mutable std::mutex mutex_;
  // Before the training that goes on: of this process, of the run, and of that training.
  int64_t own_steps_ = 0, earlier_steps_ = 0, resumed_steps_ = 0;
  std::optional<train::RunStatus> earlier_;  // what was counted before the training that goes on
  mutable std::vector<std::pair<Device, std::string>> uuids_;  // asked once
  mutable std::optional<DeviceRoof> roof_;                     // the same
  std::optional<diag::Reading> first_, reading_;
  double reading_at_ = 0, reading_period_ = 0;  // seconds
};

}  // namespace brim::command
