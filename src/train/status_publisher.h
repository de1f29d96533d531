// Puts a rank's status on the board (status.h), from the training's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <brim/data/device_loader.h>
#include <brim/diag/account.h>
#include <brim/diag/op_profile.h>
#include <brim/diag/sampling.h>

#include "core/clock.h"
#include "train/checkpointer.h"
#include "train/status_board.h"

namespace brim::train {

/// What measures a rank's training; null pointers where nothing does.
struct Measuring {
  const diag::Accountant* accountant = nullptr;
  diag::Sampling* sampling = nullptr;
};

/// The place of a rank on the board of a process that works on `devices`.
inline size_t rank_on_board(const std::vector<Device>& devices, Device device) {
  return static_cast<size_t>(std::ranges::find(devices, device) - devices.begin());
}

/// The account of a rank's whole training, once it is read.
inline void publish_account(StatusBoard::Rank& rank, const diag::Account& account) {
  RankStatus status = rank.status.read();
  status.updated = unix_seconds();
  status.device.account = account;
  rank.status.write(status);
}

/// While it lives, the board shows what a rank's thread is doing.
class ActivityOnBoard {
 public:
  /// `board` and `accountant` may be null; then nothing is shown.
  ActivityOnBoard(StatusBoard* board, size_t rank, const diag::Accountant* accountant)
      : board_(accountant ? board : nullptr), rank_(rank) {
    if (board_) board_->set_activity(rank_, accountant->activity());
  }
  ~ActivityOnBoard() {
    if (board_) board_->set_activity(rank_, nullptr);
  }
  ActivityOnBoard(const ActivityOnBoard&) = delete;
  ActivityOnBoard& operator=(const ActivityOnBoard&) = delete;

 private:
  StatusBoard* board_;
  size_t rank_;
};

class StatusPublisher {
 public:
  /// `board` may be null; then nothing is published.
  StatusPublisher(StatusBoard* board, const std::vector<Device>& devices, Device device,
                  Measuring measuring)
      : board_(board),
        rank_(rank_on_board(devices, device)),
        device_(device),
        measuring_(measuring) {}

  explicit operator bool() const { return board_ != nullptr; }

  void publish(const Progress& progress, const data::DeviceLoader& feed, int64_t skipped,
               const Checkpointer& checkpointer) {
    if (!board_) return;
    RankStatus status;
    status.updated = unix_seconds();
    status.progress = progress;
    status.progress.validation = nullptr;  // which goes
    status.skipped = skipped;
    status.checkpoints = checkpointer.written();
    status.checkpoint_failures = checkpointer.failures();
    status.workers = feed.loader().workers();
    status.slots = feed.loader().slots();
    status.ready_batches = feed.loader().ready_batches();
    status.device.device = device_;
    status.device.memory = Allocator::of(device_).stats();
    if (measuring_.accountant) status.device.account = measuring_.accountant->read_so_far(device_);
    if (measuring_.sampling) status.device.recorded = measuring_.sampling->recorded(device_);
    board_->rank(rank_).status.write(status);
    if (rank_ != 0) return;
    board_->set_stage(nullptr, 0);
    if (progress.validation) board_->set_validation(*progress.validation, progress.epoch);
  }

  void publish(std::vector<diag::OpTime> ops) {
    if (board_ && rank_ == 0) board_->set_ops(std::move(ops));
  }

 private:
  StatusBoard* board_;
  size_t rank_;
  Device device_;
  Measuring measuring_;
};

}  // namespace brim::train
