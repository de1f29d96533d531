#include "train/status_board.h"

#include <algorithm>

#include "core/clock.h"

namespace brim::train {

StatusBoard::StatusBoard(const std::vector<Device>& devices)
    : moved_on_(unix_seconds()),
      ranks_(std::make_unique<Rank[]>(devices.size())),
      count_(devices.size()),
      activities_(devices.size()) {
  for (size_t i = 0; i < count_; ++i) write_first(i, devices[i]);
}

StatusBoard::~StatusBoard() = default;

void StatusBoard::write_first(size_t rank, Device device) {
  RankStatus first;
  first.device.device = device;
  first.progress.loss = std::numeric_limits<double>::quiet_NaN();
  ranks_[rank].status.write(first);
}

void StatusBoard::clear() {
  set_stage(nullptr, 0);
  paused_ = -1;
  for (size_t i = 0; i < count_; ++i) write_first(i, ranks_[i].status.read().device.device);
  const std::lock_guard lock(mutex_);
  validation_ = nullptr;
  ops_ = nullptr;
}

StatusBoard::Rank& StatusBoard::rank(size_t index) { return ranks_[index]; }

void StatusBoard::set_phase(RunPhase phase) {
  phase_ = phase;
  set_stage(nullptr, 0);
}

void StatusBoard::set_stage(const char* stage, double fraction) {
  moved_on_ = unix_seconds();
  stage_fraction_ = fraction;
  stage_ = stage;
}

void StatusBoard::set_paused(double seconds) {
  moved_on_ = unix_seconds();
  paused_ = seconds;
}

void StatusBoard::set_validation(const Evaluation& evaluation, int64_t epoch) {
  auto newest = std::make_shared<const Evaluation>(evaluation);
  const std::lock_guard lock(mutex_);
  validation_ = std::move(newest);
  validation_epoch_ = epoch;
}

void StatusBoard::set_ops(std::vector<diag::OpTime> ops) {
  auto newest = std::make_shared<const std::vector<diag::OpTime>>(std::move(ops));
  const std::lock_guard lock(mutex_);
  ops_ = std::move(newest);
}

void StatusBoard::set_activity(size_t rank, std::shared_ptr<const diag::Activity> activity) {
  const std::lock_guard lock(mutex_);
  activities_[rank] = std::move(activity);
}

RunStatus StatusBoard::read() const {
  RunStatus status;
  status.phase = phase_;
  status.stage = stage_;
  status.stage_fraction = stage_fraction_;
  if (const double paused = paused_; paused >= 0) status.paused = paused;
  for (size_t i = 0; i < count_; ++i) {
    const RankStatus rank = ranks_[i].status.read();
    status.devices.push_back(rank.device);
    if (i > 0) continue;  // ranks are at the same step
    const Progress& p = rank.progress;
    status.updated = std::max(rank.updated, moved_on_.load());
    status.epoch = p.epoch, status.epochs = p.epochs;
    status.round = p.round, status.rounds = p.rounds;
    status.step = p.step, status.steps = p.steps;
    status.images = p.images;
    if (p.images_per_s > 0) status.images_per_s = p.images_per_s;
    if (rank.updated > 0 && p.step > 0) status.seconds_left = p.seconds_left;
    status.loss = p.loss;
    if (rank.updated > 0) status.learning_rate = p.learning_rate;
    status.skipped = rank.skipped;
    status.checkpoints = rank.checkpoints;
    status.checkpoint_failures = rank.checkpoint_failures;
    status.workers = rank.workers, status.slots = rank.slots;
    status.ready_batches = rank.ready_batches;
  }
  const std::lock_guard lock(mutex_);
  status.validation = validation_;
  status.validation_epoch = validation_epoch_;
  status.ops = ops_;
  for (const auto& activity : activities_)
    status.doing.push_back(activity ? std::optional(activity->read()) : std::nullopt);
  return status;
}

}  // namespace brim::train
