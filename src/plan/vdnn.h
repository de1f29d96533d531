// vDNN's rules of what is moved and where copies are waited for (MemoryPolicy), to compare with.
#pragma once

#include "plan/fit_model.h"

namespace brim::plan {

/// Moves the inputs of convolutions, or of all layers, within the host's limit or not. Whether and
/// how long the step then takes is not in the schedule.
Solution vdnn(const Program& program, const FitModel& model, bool all_layers);

}  // namespace brim::plan
