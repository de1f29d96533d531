// vDNN's rules of what is moved and where copies are waited for (MemoryPolicy), to compare with.
#pragma once

#include "plan/fit_model.h"

namespace brim::plan {

/// Moves the inputs of convolutions, or of all layers, of each part of a batch whose gradients are
/// added up. Whether that fits into the device and the host, and how long the step then takes, is
/// not in the schedule.
Solution vdnn(const Program& program, const FitModel& model, bool all_layers);

}  // namespace brim::plan
