// `brim bench CASE --steps N`: a fixed number of steps instead of a measurement, for what is seen
// from outside: the weights afterwards, the time to the first step, the peak memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/command/cases.h"

namespace brim::command {

/// Runs `steps` steps; then writes the network's state to the safetensors file `save` ("": does
/// not). Throws UsageError if there is no network to save, FileError.
nlohmann::ordered_json run_steps(const BenchCase& bench, const BenchSetup& setup, int64_t steps,
                                 const std::string& save);

}  // namespace brim::command
