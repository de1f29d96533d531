// Runs the tape backwards.
#pragma once

#include <span>
#include <vector>

#include "autograd/node.h"

namespace brim::autograd {

/// Sends `grad_outputs` back from `outputs`. Without `inputs`, leaves accumulate into their grad
/// and the result is empty; with them, returns the gradient of each and touches no leaf.
std::vector<Tensor> run_backward(std::span<const Tensor> outputs,
                                 std::span<const Tensor> grad_outputs,
                                 std::span<const Tensor> inputs, BackwardOptions options);

/// Name of the op whose gradient runs in this thread, or null.
const char* current_backward();

}  // namespace brim::autograd
