// `brim bench layout`: whole training steps with every activation in one memory format, against the
// formats that the layout pass chooses.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace brim::command {

/// Every model of the zoo; a round runs one compiled step of each layout, in turns, and the medians
/// are reported. `print` also shows a table.
nlohmann::ordered_json run_layout_bench(int rounds, bool print);

}  // namespace brim::command
