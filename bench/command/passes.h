// `brim bench passes`: what each pass of a plan is worth, on whole training steps.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace brim::command {

/// Training steps with all passes and with each one left out, in turns; medians over the rounds.
/// `print` also shows a table.
nlohmann::ordered_json run_passes_bench(int rounds, bool print);

}  // namespace brim::command
