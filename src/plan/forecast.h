// A program on a virtual clock: launches advance it, and nothing is run.
#pragma once

#include <brim/plan/compile.h>

#include "plan/program.h"

namespace brim::plan {

/// Launches of each of the streams follow each other without gaps, as those of a graph do, and
/// take what Launch::estimated_seconds() and the links say; streams wait for each other as they do
/// in a plan (StreamOrder). All but the arena's size.
StepForecast forecast(const Program& program);

}  // namespace brim::plan
