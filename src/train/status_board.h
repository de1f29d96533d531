// What one rank publishes on a StatusBoard.
#pragma once

#include <brim/train/status.h>

#include "core/latest.h"

namespace brim::train {

/// Plain values: RunStatus has the meanings.
struct RankStatus {
  double updated = 0;
  Progress progress;
  int64_t skipped = 0, checkpoints = 0, checkpoint_failures = 0;
  int workers = 0, slots = 0;
  int64_t ready_batches = 0;
  DeviceStatus device;
};

struct StatusBoard::Rank {
  Latest<RankStatus> status;
};

}  // namespace brim::train
