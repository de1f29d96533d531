// A run of `brim train` from its first line to its exit code.
#pragma once

namespace brim::command {

struct TrainRequest;

/// Trains, shows how far it is, saves, evaluates and reports. Returns the exit code: 0, or 128 and
/// the signal that stopped it. Throws what keeps the run from its end, once all was printed and
/// saved that could be.
int run_training(const TrainRequest& request);

}  // namespace brim::command
