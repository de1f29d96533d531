// A network as TensorBoard's graph plugin reads it: a GraphDef (tensorflow/core/framework/
// graph.proto, node_def.proto, attr_value.proto).
#pragma once

#include <brim/deploy/summary.h>

#include "io/protobuf.h"

namespace brim::train {

/// A node for what each module computes, below the modules that it is in ("layer1/0/conv1"), with
/// the shape of its output, the module's options and parameters, and operations of a forward pass;
/// and one for each input: "input", "input_1", ...
io::ProtobufWriter graph_def_of(const deploy::NetworkSummary& network);

}  // namespace brim::train
