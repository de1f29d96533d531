// The forward pass of a network as the launches of its kernels, and the modules they are in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <brim/nn/module.h>

#include "plan/recorder.h"

namespace brim::deploy {

struct RecordedNetwork {
  plan::Program program;
  std::vector<std::string> modules;  ///< by launch; "": the network itself
};

/// Records `forward` in eval mode and without gradients, with sparse layers as dense ones.
/// `inputs`: their shapes and dtypes. Throws CompileError where it reads values on the host.
RecordedNetwork record_network(nn::Module& network, const plan::Step& forward,
                               const std::vector<Tensor>& inputs);

}  // namespace brim::deploy
