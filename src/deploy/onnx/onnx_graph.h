// A network as an ONNX graph, before it is a file.
#pragma once

#include <vector>

#include <brim/nn/module.h>

#include "deploy/onnx/graph.h"

namespace brim::deploy {

/// As save_onnx(), which writes it. Throws what that throws.
OnnxGraph onnx_graph(nn::Module& network, const OnnxForward& forward,
                     const std::vector<Tensor>& examples, const OnnxOptions& options);

}  // namespace brim::deploy
