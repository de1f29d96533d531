// How a step changes a parameter: a fused kernel over many tensors, and its numbers.
#pragma once

#include <span>

#include <brim/optim/optimizer.h>

#include "backend/kernel.h"
#include "formula/optim.h"

namespace brim::optim {

/// Updates all `params` in place; states[i * n + k] is the k-th of n states of parameter i.
struct StepKernel
    : backend::Kernel<void(const Context&, std::span<Tensor> params, std::span<const Tensor> grads,
                           std::span<Tensor> states, const formula::StepParams&)> {
  explicit StepKernel(const char* name)
      : Kernel(name, {.operands = "rw params, grads, rw states"}) {}
};

struct Optimizer::Rule {
  const StepKernel& kernel;
  formula::StepParams params;
};

}  // namespace brim::optim
