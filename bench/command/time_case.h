// Measures a case of `brim bench` for some rounds, and shows what came out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "bench/command/cases.h"
#include "bench/command/fma_peak.h"

namespace brim::command {

/// The round whose median is in the middle, with the range of the medians. Where the case has a
/// copy to compare with, that is timed in turns with it. `peak`: of the CPU's multiply-adds.
nlohmann::ordered_json time_case(const BenchCase& bench, const BenchSetup& setup, int rounds,
                                 double seconds, const std::optional<FmaPeak>& peak);

void print_timing_head();
/// One line for what time_case() returned.
void print_timing(const nlohmann::ordered_json& result);

}  // namespace brim::command
