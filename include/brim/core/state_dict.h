// Tensors by name: what modules, optimizers and schedules give to files and take from them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// Tensors by name, as modules and optimizers save and load them.
using StateDict = std::map<std::string, Tensor>;
/// In the order in which they were registered.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace brim
