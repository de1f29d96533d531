// Other forms of a rule's kernel.
#pragma once

#include "backend/options/loss_scale.h"
#include "optim/rule.h"

namespace brim::optim {

/// The kernel that may skip the step, for one that may not.
const backend::GuardedStepKernel& guarded(const StepKernel& kernel);

/// The kernel for 16-bit parameters with masters, for one without.
const StepKernel& with_masters(const StepKernel& kernel);

}  // namespace brim::optim
