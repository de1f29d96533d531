// `--checkpoint-every`: steps, seconds, or only the ends of epochs.
#pragma once

#include <string>

#include <brim/train/trainer.h>

namespace brim::command {

/// "100" (steps), "60s", "0.5s" (seconds) or "epoch" (at its end alone, where one is written in any
/// case). Throws UsageError.
void parse_checkpoint_every(const std::string& text, train::CheckpointOptions& options);

}  // namespace brim::command
