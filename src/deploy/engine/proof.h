// Samples for an engine's file, with what the network makes of each.
#pragma once

#include <vector>

#include <brim/deploy/engine.h>

#include "deploy/engine/network.h"

namespace brim::deploy {

struct Proof {
  std::vector<Tensor> inputs, outputs;  ///< rows of samples, on the host
};

/// `simple`: the network, which says how large integers may be. Throws ValueError where the outputs
/// hold no number, or are others in a batch than alone; NotImplemented for an output without axes.
Proof proof_of(nn::Module& network, const EngineForward& forward,
               const std::vector<Tensor>& examples, const EngineNetwork& simple,
               const EngineOptions& options);

}  // namespace brim::deploy
