// Samples for an engine's file, with what the network makes of each.
#pragma once

#include <vector>

#include <brim/deploy/engine.h>

#include "deploy/engine/network.h"

namespace brim::deploy {

struct Proof {
  std::vector<Tensor> inputs, outputs;  ///< rows of samples, on the host
  Tensor scores;                        ///< output 0 of the network, of which outputs may be made
};

/// `simple`: the network, which says how large integers may be. Throws ValueError where the outputs
/// hold no number, are others in a batch than alone, or are no scores of classes as
/// EngineOptions::output wants them; NotImplemented for an output without axes.
Proof proof_of(nn::Module& network, const EngineForward& forward,
               const std::vector<Tensor>& examples, const EngineNetwork& simple,
               const EngineOptions& options);

}  // namespace brim::deploy
