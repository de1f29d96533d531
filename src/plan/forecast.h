// A program on a virtual clock: launches advance it, and nothing is run.
#pragma once

#include <span>

#include <brim/plan/compile.h>

#include "plan/program.h"

namespace brim::plan {

/// Launches of each of the streams follow each other without gaps, as those of a graph do, and
/// take what Launch::estimated_seconds() and the links say; streams wait for each other as they do
/// in a plan (StreamOrder). All but the arena's size. `measured`: what each launch took
/// (Plan::measure()) in place of the estimate; empty: nothing was measured.
StepForecast forecast(const Program& program, std::span<const double> measured = {});

}  // namespace brim::plan
