#include "command/run_document.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "command/monitor_report.h"
#include "command/op_report.h"
#include "command/report.h"
#include "core/host_name.h"
#include "core/printable.h"
#include "diag/gpu_sensor.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLiveOps = 10;  // of the dearest
constexpr double kOldSeconds = 5;

Json account_json(const diag::Account& account) {
  Json seconds = Json::object();
  for (size_t i = 0; i < diag::kCauseCount; ++i)
    if (account.seconds[i] > 0)
      seconds[std::string(diag::name(static_cast<diag::Cause>(i)))] = account.seconds[i];
  return {{"wall", account.wall}, {"seconds", seconds}};
}

/// What hangs says so by `seconds`.
Json doing_json(const std::optional<diag::Doing>& doing) {
  if (!doing) return nullptr;
  return {
      {"spans", doing->spans}, {"cause", diag::name(doing->cause)}, {"seconds", doing->seconds}};
}

Json device_json(const train::DeviceStatus& device, const std::optional<double>& energy) {
  const MemoryStats& memory = device.memory;
  return {{"device", device.device.str()},
          {"account", account_json(device.account)},
          {"recorded", device.recorded},
          {"memory",
           {{"live", memory.live},
            {"peak", memory.peak_live},
            {"reserved", memory.live + memory.cached},
            {"limit", memory.limit}}},
          {"energy_j", energy ? Json(*energy) : Json(nullptr)}};
}

Json validation_json(const train::RunStatus& status) {
  if (!status.validation) return nullptr;
  const Json evaluation = command::to_json(*status.validation);
  return {{"epoch", status.validation_epoch},
          {"loss", evaluation["loss"]},
          {"metrics", evaluation["metrics"]}};
}

/// What an earlier training of the run has counted, to a later one's.
void add_counts(const train::RunStatus& earlier, train::RunStatus& status) {
  status.images += earlier.images;
  status.skipped += earlier.skipped;
  status.checkpoints += earlier.checkpoints;
  status.checkpoint_failures += earlier.checkpoint_failures;
  for (size_t i = 0; i < status.devices.size(); ++i) {
    diag::Account& account = status.devices[i].account;
    const diag::Account& before = earlier.devices[i].account;
    account.wall += before.wall;
    for (size_t cause = 0; cause < account.seconds.size(); ++cause)
      account.seconds[cause] += before.seconds[cause];
  }
}

std::string absolute(const std::string& folder) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(folder, error).string();
  return folder.empty() ? "" : printable(error ? folder : path);
}

}  // namespace

const char* state_word(train::RunPhase phase) {
  switch (phase) {
    case train::RunPhase::starting:
      return "starting";
    case train::RunPhase::training:
      return "training";
    case train::RunPhase::evaluating:
      return "evaluating";
    case train::RunPhase::finished:
      return "finished";
    case train::RunPhase::stopped:
      return "stopped";
    case train::RunPhase::failed:
      return "failed";
  }
  return "";
}

RunDocument::RunDocument(RunIdentity identity, train::StatusBoard& board)
    : identity_(std::move(identity)), board_(board), started_(unix_seconds()) {}

void RunDocument::begin_training() {
  const std::lock_guard lock(mutex_);
  train::RunStatus so_far = board_.read();
  own_steps_ += so_far.step;
  earlier_steps_ += std::exchange(resumed_steps_, 0) + so_far.step;
  if (earlier_) add_counts(*earlier_, so_far);
  earlier_ = std::move(so_far);
  board_.clear();
}

void RunDocument::set_earlier_steps(int64_t steps) {
  const std::lock_guard lock(mutex_);
  earlier_steps_ = steps;
}

void RunDocument::set_steps_before(int64_t steps) {
  const std::lock_guard lock(mutex_);
  resumed_steps_ = steps;
}

RunCounts RunDocument::counts() const {
  const std::lock_guard lock(mutex_);
  RunCounts counts{.status = board_.read()};
  counts.steps = own_steps_ + counts.status.step;
  counts.steps_before = earlier_steps_ + resumed_steps_;
  if (earlier_) add_counts(*earlier_, counts.status);
  return counts;
}

void RunDocument::set_reading(const diag::Reading& reading, double at) {
  const std::lock_guard lock(mutex_);
  reading_period_ = reading.seconds - (reading_ ? reading_->seconds : 0);
  reading_at_ = at;
  reading_ = reading;
  if (!first_) first_ = reading;
}

std::string RunDocument::uuid_of(Device device) const {
  diag::GpuSensor* const sensor = diag::gpu_sensor(device.kind);
  if (!sensor) return "";
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [of, uuid] : uuids_)
      if (of == device) return uuid;
  }
  std::string uuid = sensor->uuid(device.index);  // a driver that hangs keeps nobody from the rest
  const std::lock_guard lock(mutex_);
  return uuids_.emplace_back(device, std::move(uuid)).second;
}

DeviceRoof RunDocument::roof() const {
  const std::lock_guard lock(mutex_);
  if (!roof_) roof_ = kept_roof(board_.read().devices[0].device, identity_.recipe.precision);
  return *roof_;
}

std::optional<double> RunDocument::energy_of(Device device) const {
  const std::lock_guard lock(mutex_);
  if (!reading_) return {};
  if (device.is_cpu()) return reading_->host.energy;
  const auto counted = [&](const diag::Reading& reading) -> std::optional<double> {
    for (const auto& [of, gpu] : reading.gpus)
      if (of == device) return gpu.energy;
    return {};
  };
  const auto before = counted(*first_), now = counted(*reading_);
  return before && now ? std::optional(*now - *before) : std::nullopt;
}

std::optional<diag::Reading> RunDocument::reading() const {
  const std::lock_guard lock(mutex_);
  const double old = 3 * reading_period_ + kOldSeconds;
  return steady_seconds() - reading_at_ <= old ? reading_ : std::nullopt;
}

Json RunDocument::json() const { return json(true); }

Json RunDocument::history_line() const { return json(false); }

Json RunDocument::json(bool live) const {
  const RunCounts counts = this->counts();
  const train::RunStatus& status = counts.status;
  const train::Recipe& recipe = identity_.recipe;
  Json json = {{"schema", "brim.run/1"},
               {"time", unix_seconds()},
               {"updated", status.updated},
               {"started", started_},
               {"pid", getpid()},
               {"hostname", host_name()},
               {"command", identity_.command},
               {"recipe", printable(recipe.name)},
               {"task", printable(recipe.task)},
               {"data", printable(recipe.data)},
               {"batch", recipe.batch},
               {"precision", recipe.precision},
               {"folder", absolute(identity_.folder)},
               {"state", state_word(status.phase)},
               {"stage", nullptr},
               {"paused", nullptr},
               {"rank", identity_.rank},
               {"ranks", identity_.ranks},
               {"epoch", status.epoch},
               {"epochs", status.epochs > 0 ? status.epochs : recipe.epochs},
               {"round", nullptr},
               {"rounds", nullptr},
               {"point", nullptr},
               {"points", nullptr},
               {"step", status.step},
               {"steps", status.steps},
               {"steps_before", counts.steps_before},
               {"images", status.images},
               {"images_per_s", finite(status.images_per_s)},
               {"seconds_left", finite(status.seconds_left)},
               {"loss", finite(status.loss)},
               {"learning_rate", finite(status.learning_rate)},
               {"validation", validation_json(status)},
               {"skipped", status.skipped},
               {"checkpoints", status.checkpoints},
               {"checkpoint_failures", status.checkpoint_failures},
               {"loader", nullptr},
               {"devices", Json::array()},
               {"host", nullptr},
               {"gpus", Json::object()}};
  if (status.stage)
    json["stage"] = {{"name", status.stage}, {"fraction", finite(status.stage_fraction)}};
  if (status.paused) json["paused"] = {{"why", "heat"}, {"seconds", finite(*status.paused)}};
  if (status.rounds > 0) json["round"] = status.round, json["rounds"] = status.rounds;
  if (points_ > 0) json["point"] = point_.load(), json["points"] = points_.load();
  if (status.slots > 0)
    json["loader"] = {
        {"workers", status.workers}, {"slots", status.slots}, {"ready", status.ready_batches}};
  for (size_t i = 0; i < status.devices.size(); ++i) {
    const Device device = status.devices[i].device;
    Json& one = json["devices"].emplace_back(device_json(status.devices[i], energy_of(device)));
    if (!live) continue;
    one["uuid"] = uuid_of(device);
    one["doing"] = doing_json(status.doing[i]);
  }
  if (live) json["ops"] = status.ops ? ops_json(*status.ops, kLiveOps, roof()) : Json::array();
  if (const std::optional<diag::Reading> sensors = reading()) {
    json["host"] = reading_json(sensors->host);
    for (const auto& [device, gpu] : sensors->gpus) json["gpus"][device.str()] = reading_json(gpu);
  }
  return json;
}

}  // namespace brim::command
