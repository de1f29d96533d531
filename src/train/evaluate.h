// Evaluation from whatever gives batches.
#pragma once

#include <functional>

#include <brim/train/trainer.h>

#include "train/feed.h"

namespace brim::train {

/// evaluate() of trainer.h on the batches of `feed`, which come from `loader`.
Evaluation evaluate(nn::Module& model, const data::Loader& loader, Feed& feed, Device device,
                    const std::function<bool(double fraction)>& progress);

}  // namespace brim::train
