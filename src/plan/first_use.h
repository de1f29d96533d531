// Tensors that a step makes on its first run and keeps: a mask cached in forward(), the state of an
// optimizer of one's own.
#pragma once

#include <span>

#include "plan/pass.h"
#include "plan/recorder.h"

namespace brim::plan {

/// What `first` does that `steady`, a later recording of the same step, does no more: it makes
/// tensors that `steady` reads. Computes these, once and for real, from the step's `inputs`. Throws
/// CompileError naming the op if there is another difference, or if they need what the step itself
/// has computed by then.
void compute_first_use(Recording first, const Program& steady, std::span<const Tensor> inputs,
                       const PassSelection& passes);

}  // namespace brim::plan
